package faults

import (
	"bytes"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// disk is an ext4 file system on a loop device whose blocks come out of a fuse: a disk
// whose reads can be made slow or failing, with everything of the kernel between it
// and the worker that a real disk has.
type disk struct {
	*fuse
	mount string
}

// mountDisk makes a disk with the objects of dir on it.
func mountDisk(t *testing.T, dir string) *disk {
	t.Helper()
	asRoot(t, "sets up a loop device and mounts it")
	mkfs, losetup := tool(t, "mkfs.ext4", "e2fsprogs"), tool(t, "losetup", "mount")
	image := filepath.Join(tree(t), "image")
	if out, err := exec.Command(mkfs, "-q", "-F", "-O", "^has_journal", "-d", dir, image, "96M").CombinedOutput(); err != nil {
		t.Fatalf("mkfs.ext4: %v: %s", err, out)
	}
	blocks, err := os.ReadFile(image)
	check(t, err)
	d := &disk{fuse: mountFuse(t, true, &fuseFile{"image", blocks}), mount: tree(t)}
	out, err := exec.Command(losetup, "--find", "--show", "--read-only", filepath.Join(d.dir, "image")).CombinedOutput()
	if err != nil {
		t.Skipf("needs loop devices: losetup: %v: %s", err, out)
	}
	device := strings.TrimSpace(string(out))
	err = unix.Mount(device, d.mount, "ext4", unix.MS_RDONLY, "")
	if out, e := exec.Command(losetup, "--detach", device).CombinedOutput(); e != nil { // as soon as it is not mounted any more
		t.Errorf("losetup --detach %s: %v: %s", device, e, out)
	}
	check(t, err)
	t.Cleanup(func() {
		d.fault.Store(nil)
		for end := time.Now().Add(patience); ; time.Sleep(10 * time.Millisecond) {
			if err := unix.Unmount(d.mount, 0); err == nil || time.Now().After(end) {
				check(t, err)
				return
			}
		}
	})
	return d
}

// origins are the two kinds of file system that differ for a ring: on one a read can be
// told not to wait, on the other it cannot.
var origins = []struct {
	name string
	asks bool // whether it says what is in memory
	make func(t *testing.T, dir string, names ...string) (f *fuse, root string)
}{
	{"ext4", true, func(t *testing.T, dir string, _ ...string) (*fuse, string) {
		d := mountDisk(t, dir)
		return d.fuse, d.mount
	}},
	{"fuse", false, func(t *testing.T, dir string, names ...string) (*fuse, string) {
		var files []*fuseFile
		for _, name := range names {
			body, err := os.ReadFile(filepath.Join(dir, name))
			check(t, err)
			files = append(files, &fuseFile{name, body})
		}
		f := mountFuse(t, false, files...)
		return f, f.dir
	}},
}

// TestSlowDisk: a disk hangs, then every read of it takes 300 ms. Who asks for what is
// in memory does not notice, or where nothing says what is, who asks for no bytes; who
// asks for what is not waits and gets it; the kernel does not start a thread for each.
func TestSlowDisk(t *testing.T) {
	for _, o := range origins {
		t.Run(o.name, func(t *testing.T) {
			dir := tree(t)
			hot, small, big := object(t, dir, "hot", 8000), object(t, dir, "small", 9000), object(t, dir, "big", 1<<20)
			bighot := object(t, dir, "bighot", 200_000)
			f, root := o.make(t, dir, "hot", "small", "big", "bighot")
			w := start(t, root)
			for path, body := range map[string][]byte{"hot": hot, "small": small, "big": big, "bighot": bighot} {
				w.want(path, body)
			}
			before := w.holdings()
			time.Sleep(time.Second + 50*time.Millisecond) // so long the worker believes what it has seen in memory
			evict(t, filepath.Join(root, "small"))
			evict(t, filepath.Join(root, "big"))
			var b, b2 *bystander
			if o.asks {
				b, b2 = w.bystander("hot", hot), w.bystander("bighot", bighot)
			} else {
				b, b2 = w.asker("hot"), w.asker("bighot")
			}
			hang := &readFault{hang: make(chan struct{}), delay: 300 * time.Millisecond}
			f.fault.Store(hang)
			reads := f.reads.Load()
			waiting := make(chan error, 40)
			for i := range cap(waiting) {
				path, body := "small", small
				if i%2 == 0 {
					path, body = "big", big
				}
				go func() { waiting <- w.serves(path, body)() }()
			}
			w.until("all of them waiting", func(m map[string]float64) bool { return m["talon_residency_parked_total"] >= 40 })
			b.goesOn(50)
			b2.goesOn(50)
			if n := w.holdings().ioThreads; n > 8 {
				t.Errorf("%d kernel workers, the ring's caps are 4 and 4", n)
			}
			if len(waiting) > 0 {
				t.Errorf("%d came although the disk hangs: they waited for nothing", len(waiting))
			}
			close(hang.hang) // from here on it is only slow
			for range cap(waiting) {
				check(t, <-waiting)
			}
			if got := f.reads.Load() - reads; got < 4 {
				t.Errorf("%d slow reads: nobody waited for the disk", got)
			}
			others := b.end() + "; " + b2.end()
			evict(t, filepath.Join(root, "big"))
			f.fault.Store(nil)
			for f.slow.Load() > 0 { // the disk is well when its last slow read is over
				time.Sleep(time.Millisecond)
			}
			w.wellAfter("slow disk, "+o.name, func() {}, w.serves("big", big), others)
			w.givenBack(before)
		})
	}
}

// TestBadDisk: some blocks cannot be read. What has no head yet is answered 500, what
// has is cut off; every byte that came is right, and nothing is padded.
func TestBadDisk(t *testing.T) {
	for _, o := range origins {
		t.Run(o.name, func(t *testing.T) {
			dir := tree(t)
			hot, small, big := object(t, dir, "hot", 8000), object(t, dir, "small", 9000), object(t, dir, "big", 24<<20)
			f, root := o.make(t, dir, "hot", "small", "big")
			w := start(t, root)
			w.want("hot", hot)
			before := w.holdings()
			b := w.bystander("hot", hot)

			w.want("small", small) // its name is known, and so is that of the other
			if status, _, err := w.once("big", "Range: bytes=0-0"); status != 206 || err != nil {
				t.Fatalf("first byte: %d, %v", status, err)
			}
			evict(t, filepath.Join(root, "small"))
			evict(t, filepath.Join(root, "big"))
			f.fault.Store(&readFault{errno: unix.EIO})
			for _, path := range []string{"small", "big"} {
				c := w.dial()
				for again := range 2 { // on the same connection: it is not the client's fault
					if status, _, err := c.get(path); err != nil || status != 500 {
						t.Errorf("GET /%s, time %d, of a disk that cannot be read: %d, %v, want 500", path, again, status, err)
					}
				}
				if status, body, err := c.get("hot"); err != nil || status != 200 || !bytes.Equal(body, hot) {
					t.Errorf("then, on the same connection: %d, %v", status, err)
				}
				c.close()
			}
			b.goesOn(20)
			f.fault.Store(nil)
			c := w.dial()
			check(t, c.ask("big"))
			resp, err := c.head()
			check(t, err)
			begin := make([]byte, 1<<20)
			_, err = io.ReadFull(resp.Body, begin)
			check(t, err)
			f.fault.Store(&readFault{errno: unix.EIO})
			rest, err := io.ReadAll(resp.Body)
			if got := append(begin, rest...); !errors.Is(err, io.ErrUnexpectedEOF) || !bytes.HasPrefix(big, got) {
				t.Errorf("a disk that fails in mid-response: %d bytes, a prefix: %v, %v", len(got), bytes.HasPrefix(big, got), err)
			}
			f.fault.Store(&readFault{errno: unix.EIO})
			if status, _, err := w.once("small"); err != nil || status != 500 {
				t.Errorf("before the relief: %d, %v, want 500", status, err)
			}
			others := b.end()
			w.wellAfter("EIO, "+o.name, func() { f.fault.Store(nil) }, w.serves("small", small), others)
			w.want("big", big)
			c.close()
			w.givenBack(before)
			m := w.metrics()
			if m[`talon_http_requests_total{code="500"}`] < 4 || m[`talon_connections_closed_total{reason="file"}`] < 1 {
				t.Errorf("not counted: %v answers of 500, %v connections closed for a file", m[`talon_http_requests_total{code="500"}`], m[`talon_connections_closed_total{reason="file"}`])
			}
		})
	}
}

// TestInterruptedAttributes: a file system whose server answers EINTR, as it may when a
// signal comes. Nothing has changed, and no response may be taken back for it.
func TestInterruptedAttributes(t *testing.T) {
	hot, big := noise("hot", 8000), noise("big", 3<<20)
	f := (&fuse{files: []*fuseFile{{"hot", hot}, {"big", big}}, forget: true}).mount(t)
	w := start(t, f.dir)
	for range 30 {
		w.want("hot", hot)
		w.want("big", big)
	}
	w.end()
	if n := f.asked.Load(); n < 30 {
		t.Errorf("attributes were asked for %d times: the test tests nothing", n)
	}
}
