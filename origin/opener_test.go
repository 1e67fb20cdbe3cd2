package origin

import (
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"golang.org/x/sys/unix"
)

// answers collects what an Opener says.
type answers chan *OpenRequest

func (a answers) post(r *OpenRequest) { a <- r }

func request(t testing.TB, a answers, key string) *OpenRequest {
	t.Helper()
	r := &OpenRequest{Done: a.post}
	must(t, r.SetKey([]byte(key)))
	return r
}

func TestOpenerOpens(t *testing.T) {
	dir := t.TempDir()
	write(t, dir+"/a/f", "hello")
	o := NewOpener(openDir(t, dir), 2, 8)
	defer o.Stop()
	got := make(answers, 8)
	for key, want := range map[string]error{"a/f": nil, "a/none": ErrNotExist, "a": ErrNotExist, "../f": ErrNotExist} {
		r := request(t, got, key)
		must(t, o.Submit(r))
		r = <-got
		if r.Err != want || string(r.Key()) != key {
			t.Fatalf("key %q: %v, want %v", r.Key(), r.Err, want)
		}
		if want != nil {
			if r.FD != -1 {
				t.Errorf("key %q: fd %d beside an error", key, r.FD)
			}
		} else if s := content(t, r.FD, r.Info); s != "hello" {
			t.Errorf("read %q", s)
		}
	}
	if err := new(OpenRequest).SetKey(make([]byte, MaxKey+1)); err != ErrNotExist {
		t.Errorf("SetKey of a key too long: %v", err)
	}
}

// stuckOpener has its only worker inside Done until release is closed.
func stuckOpener(t *testing.T, queue int) (o *Opener, release chan struct{}) {
	t.Helper()
	dir := t.TempDir()
	write(t, dir+"/f", "x")
	o = NewOpener(openDir(t, dir), 1, queue)
	release = make(chan struct{})
	began := make(chan struct{})
	r := &OpenRequest{Done: func(*OpenRequest) { close(began); <-release }}
	must(t, r.SetKey([]byte("none")))
	must(t, o.Submit(r))
	<-began
	return o, release
}

func TestOpenerFull(t *testing.T) {
	o, release := stuckOpener(t, 2)
	got := make(answers, 8)
	for range 2 {
		must(t, o.Submit(request(t, got, "f")))
	}
	if err := o.Submit(request(t, got, "f")); err != ErrBusy {
		t.Fatalf("third request in a queue of 2: %v, want ErrBusy", err)
	}
	close(release)
	for range 2 {
		r := <-got
		must(t, r.Err)
		unix.Close(r.FD)
	}
	o.Stop()
	if len(got) != 0 {
		t.Error("the refused request was answered as well")
	}
}

func TestOpenerStopAnswersWhatIsQueued(t *testing.T) {
	o, release := stuckOpener(t, 3)
	got := make(answers, 8)
	for range 3 {
		must(t, o.Submit(request(t, got, "f")))
	}
	stopped := make(chan struct{})
	go func() { o.Stop(); close(stopped) }()
	for !o.stopped.Load() {
		runtime.Gosched()
	}
	if err := o.Submit(request(t, got, "f")); err != ErrBusy {
		t.Errorf("Submit after Stop: %v, want ErrBusy", err)
	}
	close(release)
	<-stopped
	for range 3 {
		if r := <-got; r.Err != ErrBusy || r.FD != -1 {
			t.Errorf("queued at Stop: fd %d, %v; want ErrBusy", r.FD, r.Err)
		}
	}
	o.Stop()
}

func TestOpenerClosesFiles(t *testing.T) {
	dir := t.TempDir()
	write(t, dir+"/f", "x")
	o := NewOpener(openDir(t, dir), 1, 4)
	o.CloseFile(-1)
	var fds []int
	for range 100 {
		fd, err := unix.Dup(o.dir.fd)
		must(t, err)
		fds = append(fds, fd)
		o.CloseFile(fd)
	}
	o.Stop()
	for _, fd := range fds {
		if _, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); err != unix.EBADF {
			t.Fatalf("descriptor %d is still open", fd)
		}
	}
	before := o.InlineCloses()
	fd, err := unix.Dup(o.dir.fd)
	must(t, err)
	o.CloseFile(fd)
	if o.InlineCloses() != before+1 {
		t.Error("a close after Stop is not counted as inline")
	}
	if _, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); err != unix.EBADF {
		t.Error("a close after Stop was lost")
	}
}

// TestOpenerUnderFire: many threads submit while the Opener stops; each accepted
// request is answered exactly once, and no descriptor is lost.
func TestOpenerUnderFire(t *testing.T) {
	dir := t.TempDir()
	write(t, dir+"/f", "x")
	d := openDir(t, dir)
	for range 20 {
		o := NewOpener(d, 3, 4)
		var accepted, answered atomic.Int64
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() {
				free := make(answers, 1)
				r := request(t, nil, "f")
				r.Done = func(r *OpenRequest) { answered.Add(1); o.CloseFile(r.FD); free <- r }
				for range 50 {
					if o.Submit(r) == nil {
						accepted.Add(1)
						<-free
					}
				}
			})
		}
		wg.Go(o.Stop)
		wg.Wait()
		if accepted.Load() != answered.Load() {
			t.Fatalf("%d accepted, %d answered", accepted.Load(), answered.Load())
		}
	}
}

// TestOpenerServesColdNames: what /proc tells of descriptors is looked up anew each
// time, so TryOpen never has it.
func TestOpenerServesColdNames(t *testing.T) {
	d := openDir(t, "/proc/self")
	o := NewOpener(d, 1, 1)
	defer o.Stop()
	var s Scratch
	if _, _, err := d.TryOpen(&s, []byte("fdinfo/0")); err != ErrWouldBlock {
		t.Fatalf("TryOpen: %v, want ErrWouldBlock", err)
	}
	got := make(answers, 1)
	must(t, o.Submit(request(t, got, "fdinfo/0")))
	r := <-got
	must(t, r.Err)
	defer unix.Close(r.FD)
	buf := make([]byte, 4)
	if _, err := unix.Read(r.FD, buf); err != nil || string(buf) != "pos:" {
		t.Errorf("read %q, %v", buf, err)
	}
}

func TestSubmitAllocatesNothing(t *testing.T) {
	dir := t.TempDir()
	write(t, dir+"/f", "x")
	o := NewOpener(openDir(t, dir), 1, 4)
	defer o.Stop()
	got := make(answers, 1)
	r := request(t, got, "f")
	key := []byte("f")
	if n := testing.AllocsPerRun(200, func() {
		if r.SetKey(key) != nil || o.Submit(r) != nil {
			t.Fatal("refused")
		}
		o.CloseFile((<-got).FD)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
