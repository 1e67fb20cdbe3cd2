package bed

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// TalonArgs is how talon is started unless the caller says otherwise.
const TalonArgs = "serve --listen {listen} --admin {admin} --origin {dir} --rings 1"

// Talon is the binary at path with args split at blanks.
func Talon(name, path, args string) *Server {
	return &Server{Name: name, Argv: append([]string{path}, strings.Fields(args)...)}
}

// NetHTTP is http.FileServer on one processor.
func NetHTTP(path string) *Server {
	return &Server{Name: "nethttp", Argv: []string{path, "--listen", "{listen}", "--dir", "{dir}", "--procs", "1"}}
}

// Limit is the bare C sendfile loop.
func Limit(path string) *Server {
	return &Server{Name: "limit", Argv: []string{path, "{listen}", "{dir}"}}
}

// nginxConf is stock nginx with what its documentation advises for static files: sendfile, a cache of
// open files, no access log. Only the two lines that depend on the size of objects vary.
const nginxConf = `daemon off;
worker_processes 1;
user root;
pid {work}/%[1]s.pid;
error_log {work}/%[1]s.err;
events { worker_connections 4096; }
http {
  default_type application/octet-stream;
  access_log off;
  sendfile on;
  tcp_nopush %[2]s;
  %[3]s
  open_file_cache max=1000 inactive=1h;
  open_file_cache_valid 60s;
  keepalive_requests 1000000000;
  keepalive_timeout 1h;
  client_body_temp_path {work}/%[1]s.body;
  proxy_temp_path {work}/%[1]s.proxy;
  fastcgi_temp_path {work}/%[1]s.fastcgi;
  uwsgi_temp_path {work}/%[1]s.uwsgi;
  scgi_temp_path {work}/%[1]s.scgi;
  server { listen {listen}; root {dir}; }
}
`

// Nginx is the four configurations of which the best at each size is the peer. tcp_nopush helps nginx
// at small objects and costs it up to 1.8x at large ones on loopback, so neither alone would be fair.
func Nginx(path string) []*Server {
	var out []*Server
	for _, v := range []struct{ name, nopush, chunk string }{
		{"nginx", "off", ""},
		{"nginx-nopush", "on", ""},
		{"nginx-512k", "off", "sendfile_max_chunk 512k;"},
		{"nginx-nopush-512k", "on", "sendfile_max_chunk 512k;"},
	} {
		conf := fmt.Sprintf(nginxConf, v.name, v.nopush, v.chunk)
		out = append(out, &Server{Name: v.name, Argv: []string{path, "-c", "{work}/" + v.name + ".conf", "-e", "{work}/" + v.name + ".err"},
			Files: map[string]string{"{work}/" + v.name + ".conf": conf}})
	}
	return out
}

// FindNginx looks in the path and in sbin, which is not in every user's path.
func FindNginx() (string, error) {
	if path, err := exec.LookPath("nginx"); err == nil {
		return path, nil
	}
	return exec.LookPath("/usr/sbin/nginx")
}

// Install gets packages by apt when a program is missing, and keeps their daemons from starting.
func Install(program string, find func() (string, error), packages ...string) (string, error) {
	if path, err := find(); err == nil {
		return path, nil
	}
	apt, err := exec.LookPath("apt-get")
	if err != nil {
		return "", fmt.Errorf("%s is missing and there is no apt-get: install it and run again", program)
	}
	allow, err := denyDaemons()
	if err != nil {
		return "", err
	}
	defer allow()
	for _, args := range [][]string{{"update", "-qq"}, append([]string{"install", "-y", "-qq", "--no-install-recommends"}, packages...)} {
		cmd := exec.Command(apt, args...)
		cmd.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive")
		if out, err := cmd.CombinedOutput(); err != nil {
			return "", fmt.Errorf("apt-get %s: %w\n%s", strings.Join(args, " "), err, out)
		}
	}
	return find()
}

// denyDaemons puts a policy in place that refuses to start services (invoke-rc.d(8)) and returns how
// to take it away. One that is there already is left alone.
func denyDaemons() (allow func(), err error) {
	const policy = "/usr/sbin/policy-rc.d"
	f, err := os.OpenFile(policy, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o755)
	if os.IsExist(err) {
		return func() {}, nil
	}
	if err != nil {
		return nil, err
	}
	_, err = f.WriteString("#!/bin/sh\nexit 101\n")
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	return func() { os.Remove(policy) }, err
}

// BuildLimit compiles the C loop into work.
func BuildLimit(work string) (string, error) {
	cc, err := Install("a C compiler", func() (string, error) { return exec.LookPath("cc") }, "gcc", "libc6-dev")
	if err != nil {
		return "", fmt.Errorf("limit line: %w (or leave it out with --servers)", err)
	}
	out := filepath.Join(work, "sendfile_loop")
	if msg, err := exec.Command(cc, "-O2", "-o", out, "bench/limit/sendfile_loop.c").CombinedOutput(); err != nil {
		return "", fmt.Errorf("limit line: %w\n%s", err, msg)
	}
	return out, nil
}

// BuildGo compiles a command of this repository into work.
func BuildGo(work, pkg string) (string, error) {
	out := filepath.Join(work, filepath.Base(pkg))
	if msg, err := exec.Command("go", "build", "-o", out, pkg).CombinedOutput(); err != nil {
		return "", fmt.Errorf("go build %s: %w\n%s", pkg, err, msg)
	}
	return out, nil
}
