// A bare sendfile loop: the line that a server of static files on this machine is measured against.
//
// One thread, epoll, one request in flight per connection, no checks beyond what keeps it standing.
// Files are opened once and kept. Each turn sends at most TURN bytes and then lets the next
// connection have its turn, which costs nothing and keeps the working set of the socket buffers
// small (a single unbounded call can run for milliseconds).
//
//     cc -O2 -o sendfile_loop sendfile_loop.c && ./sendfile_loop 127.0.0.1:8080 DIR
//
// It listens on loopback only, speaks GET and HEAD of plain names in DIR, and ends on SIGTERM.

#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

enum { TURN = 256 << 10, SNDBUF = 256 << 10, MAXFD = 4096, MAXFILES = 64, REQ = 4096 };

struct file {
	char name[256];
	int fd;
	off_t size;
};

// A connection is waiting for a request, or owes left bytes of file from off.
struct conn {
	int fd;
	int have;   // request bytes in buf
	int queued; // owes bytes, can send, and stands in the queue
	int file;
	off_t off, left;
	char buf[REQ];
};

static struct file files[MAXFILES];
static int nfiles;
static struct conn *conns[MAXFD];
static struct conn *queue[MAXFD]; // connections whose socket takes more: a ring, each at most once
static unsigned head, tail;
static int epfd, dirfd;

static void die(const char *what)
{
	perror(what);
	exit(1);
}

static int lookup(const char *name)
{
	for (int i = 0; i < nfiles; i++)
		if (!strcmp(files[i].name, name))
			return i;
	struct stat st;
	if (nfiles == MAXFILES || strlen(name) >= sizeof files[0].name || strchr(name, '/') || name[0] == '.')
		return -1;
	int fd = openat(dirfd, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	if (fd < 0)
		return -1;
	if (fstat(fd, &st) || !S_ISREG(st.st_mode)) {
		close(fd);
		return -1;
	}
	struct file *f = &files[nfiles];
	strcpy(f->name, name);
	f->fd = fd;
	f->size = st.st_size;
	return nfiles++;
}

static void drop(struct conn *c)
{
	close(c->fd);
	conns[c->fd] = NULL;
	if (c->queued)
		c->fd = -1; // the queue still points here and frees it
	else
		free(c);
}

static void enqueue(struct conn *c)
{
	if (c->queued)
		return;
	c->queued = 1;
	queue[tail++ % MAXFD] = c;
}

// answer parses the one request in buf and sends the head; -1 drops the connection.
static int answer(struct conn *c)
{
	char method[8], path[300], out[256];
	c->buf[c->have] = 0;
	if (sscanf(c->buf, "%7s %299s", method, path) != 2)
		return -1;
	c->have = 0;
	c->file = lookup(path + 1);
	int body = c->file >= 0 && !strcmp(method, "GET");
	int n = snprintf(out, sizeof out, "HTTP/1.1 %s\r\nServer: limit\r\nContent-Type: application/octet-stream\r\nContent-Length: %lld\r\n\r\n",
			 c->file >= 0 ? "200 OK" : "404 Not Found", c->file >= 0 ? (long long)files[c->file].size : 0LL);
	c->off = 0;
	c->left = body ? files[c->file].size : 0;
	if (send(c->fd, out, n, MSG_NOSIGNAL | (c->left ? MSG_MORE : 0)) != n)
		return -1;
	return 0;
}

// turn sends one bounded piece. 1: more can go now; 0: finished or the socket is full; -1: dead.
static int turn(struct conn *c)
{
	ssize_t n = sendfile(c->fd, files[c->file].fd, &c->off, c->left < TURN ? c->left : TURN);
	if (n < 0)
		return errno == EAGAIN ? 0 : -1;
	if (n == 0)
		return -1; // the file shrank
	c->left -= n;
	return c->left > 0;
}

static void readable(struct conn *c)
{
	if (c->left)
		return; // one request in flight; the rest stays in the socket
	ssize_t n = recv(c->fd, c->buf + c->have, REQ - 1 - c->have, 0);
	if (n < 0 && errno == EAGAIN)
		return;
	if (n <= 0) {
		drop(c);
		return;
	}
	c->have += n;
	if (c->have < 4 || memcmp(c->buf + c->have - 4, "\r\n\r\n", 4)) {
		if (c->have == REQ - 1)
			drop(c);
		return;
	}
	int r = answer(c);
	if (r == 0 && c->left)
		r = turn(c);
	if (r < 0)
		drop(c);
	else if (r > 0)
		enqueue(c);
}

static void accept_all(int ls)
{
	int one = 1, buf = SNDBUF;
	for (;;) {
		int fd = accept4(ls, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
		if (fd < 0)
			return;
		struct conn *c = fd < MAXFD ? calloc(1, sizeof *c) : NULL;
		if (!c) {
			close(fd);
			continue;
		}
		c->fd = fd;
		conns[fd] = c;
		setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
		setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &buf, sizeof buf);
		struct epoll_event ev = {.events = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET, .data.fd = fd};
		if (epoll_ctl(epfd, EPOLL_CTL_ADD, fd, &ev))
			drop(c);
	}
}

// round_of_turns gives every connection in the queue one turn.
static void round_of_turns(void)
{
	for (unsigned end = tail; head != end;) {
		struct conn *c = queue[head++ % MAXFD];
		c->queued = 0;
		if (c->fd < 0) {
			free(c);
			continue;
		}
		int r = turn(c);
		if (r > 0)
			enqueue(c);
		else if (r < 0)
			drop(c);
	}
}

static int listen_on(char *addr)
{
	char *colon = strchr(addr, ':');
	int one = 1, fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (!colon || fd < 0) {
		fprintf(stderr, "listen address %s: want 127.0.0.1:PORT\n", addr);
		exit(2);
	}
	struct sockaddr_in sa = {.sin_family = AF_INET, .sin_port = htons(atoi(colon + 1)), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
	if (bind(fd, (struct sockaddr *)&sa, sizeof sa) || listen(fd, 1024))
		die(addr);
	return fd;
}

int main(int argc, char **argv)
{
	if (argc != 3) {
		fprintf(stderr, "usage: sendfile_loop 127.0.0.1:PORT DIR\n");
		return 2;
	}
	struct rlimit rl = {MAXFD, MAXFD};
	setrlimit(RLIMIT_NOFILE, &rl);
	signal(SIGPIPE, SIG_IGN); // sendfile has no MSG_NOSIGNAL
	if ((dirfd = open(argv[2], O_RDONLY | O_DIRECTORY | O_CLOEXEC)) < 0)
		die(argv[2]);
	int ls = listen_on(argv[1]);
	if ((epfd = epoll_create1(EPOLL_CLOEXEC)) < 0)
		die("epoll");
	struct epoll_event ev = {.events = EPOLLIN, .data.fd = ls}, evs[256];
	if (epoll_ctl(epfd, EPOLL_CTL_ADD, ls, &ev))
		die("epoll_ctl");
	for (;;) {
		int n = epoll_wait(epfd, evs, 256, head == tail ? -1 : 0);
		for (int i = 0; i < n; i++) {
			if (evs[i].data.fd == ls) {
				accept_all(ls);
				continue;
			}
			struct conn *c = conns[evs[i].data.fd];
			if (!c)
				continue;
			if (c->left && (evs[i].events & EPOLLOUT))
				enqueue(c);
			if (evs[i].events & (EPOLLERR | EPOLLHUP))
				drop(c);
			else if (evs[i].events & EPOLLIN)
				readable(c);
		}
		round_of_turns();
	}
}
