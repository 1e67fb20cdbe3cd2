package uring

import (
	"errors"
	"fmt"
	"runtime"
	"time"

	"golang.org/x/sys/unix"

	"github.com/talon-worker/talon/uring/internal/abi"
)

// Probe makes a throw-away ring on a thread of its own and lets every operation that the package submits show that it behaves, in a few
// milliseconds. It goes by behaviour, not by the kernel's version, which distributions backport past. The error is an *Unavailable.
func Probe() error {
	result := make(chan error)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		result <- probe()
	}()
	return <-result
}

func probe() (err error) {
	r, err := New(Config{Entries: 8, extraOps: []uint8{abi.OpNop}})
	if err != nil {
		return err
	}
	s := &selfTest{ring: r}
	defer func() {
		if e := errors.Join(r.Close(), s.close()); err == nil && e != nil {
			err = failed("close", e)
		}
	}()
	if err := r.Enable(); err != nil {
		return failed("enable", err)
	}
	if err := s.prepare(); err != nil {
		return failed("its own preparation", err)
	}
	for _, step := range selfTests {
		if err := step.run(s); err != nil {
			return failed(step.name, err)
		}
	}
	return nil
}

// failed explains a self-test that did not pass. Where the kernel refuses the calls themselves, that is the cause.
func failed(step string, err error) error {
	for _, refused := range []unix.Errno{unix.EPERM, unix.ENOSYS, unix.ENOMEM, unix.EMFILE, unix.ENFILE} {
		if errors.Is(err, refused) {
			return unavailable(fmt.Errorf("%s: %w", step, err))
		}
	}
	return &Unavailable{"the self-test of " + step + " failed", needKernel, err}
}

// selfTests come in the order in which they need each other.
var selfTests = []struct {
	name string
	run  func(*selfTest) error
}{
	{"nop", (*selfTest).nop},
	{"timed wait", (*selfTest).timedWait},
	{"send", (*selfTest).send},
	{"multishot recv", (*selfTest).recv},
	{"multishot accept", (*selfTest).accept},
	{"read", (*selfTest).read},
	{"poll", (*selfTest).poll},
	{"prefetch", (*selfTest).prefetch},
	{"cancel by user data", (*selfTest).cancel},
	{"cancel by descriptor", (*selfTest).cancelFD},
}

// selfTest is the ring under test and what it is tried on.
type selfTest struct {
	ring   *Ring
	mem    []byte // 16 bytes, for the kernel
	pair   [2]int // connected stream sockets
	event  int    // an eventfd
	file   int    // a file in memory, 4 KiB long, of the letter x
	listen int    // a listening socket
	extra  int    // a client of listen
	group  *Buffers
	opened []int
}

func (s *selfTest) prepare() (err error) {
	if s.mem, err = mapMemory(16, 0); err != nil {
		return err
	}
	if s.pair, err = unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0); err != nil {
		return fmt.Errorf("socketpair: %w", err)
	}
	s.opened = append(s.opened, s.pair[0], s.pair[1])
	for _, d := range []struct {
		what string
		fd   *int
		open func() (int, error)
	}{
		{"eventfd", &s.event, func() (int, error) { return unix.Eventfd(0, unix.EFD_NONBLOCK|unix.EFD_CLOEXEC) }},
		{"memfd", &s.file, func() (int, error) { return unix.MemfdCreate("talon-probe", unix.MFD_CLOEXEC) }},
		{"socket", &s.listen, unixSocket},
		{"socket", &s.extra, unixSocket},
	} {
		if *d.fd, err = d.open(); err != nil {
			return fmt.Errorf("%s: %w", d.what, err)
		}
		s.opened = append(s.opened, *d.fd)
	}
	return s.fill()
}

func unixSocket() (int, error) {
	return unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
}

// fill gives the file its bytes and the listening socket a name that the kernel chooses.
func (s *selfTest) fill() error {
	page := make([]byte, 4096)
	for i := range page {
		page[i] = 'x'
	}
	if _, err := unix.Pwrite(s.file, page, 0); err != nil {
		return fmt.Errorf("write to a memfd: %w", err)
	}
	if err := unix.Bind(s.listen, &unix.SockaddrUnix{}); err != nil {
		return fmt.Errorf("bind: %w", err)
	}
	return unix.Listen(s.listen, 1)
}

func (s *selfTest) close() error {
	var errs []error
	for _, fd := range s.opened {
		errs = append(errs, unix.Close(fd))
	}
	if s.mem != nil {
		errs = append(errs, unmapMemory(s.mem))
	}
	return errors.Join(errs...)
}

// An operation may take selfTestWaits waits of selfTestWait; they are all immediate, but signals may end a wait.
const (
	selfTestWaits = 400
	selfTestWait  = 5 * time.Millisecond
)

func (s *selfTest) take() (Completion, error) {
	for range selfTestWaits {
		if c, ok := s.ring.Next(); ok {
			return c, nil
		}
		if err := s.ring.Wait(selfTestWait); err != nil {
			return Completion{}, err
		}
	}
	return Completion{}, fmt.Errorf("no completion in %d waits of %v", selfTestWaits, selfTestWait)
}

// expect takes the next completion, which must be ud's with that result.
func (s *selfTest) expect(ud UserData, res int32) error {
	c, err := s.take()
	if err == nil && (c.UserData != ud || c.Res != res) {
		err = fmt.Errorf("got %v, want request %d with %d", c, ud, res)
	}
	return err
}

// expectBoth takes two completions in either order.
func (s *selfTest) expectBoth(a UserData, resA int32, b UserData, resB int32) error {
	for range 2 {
		c, err := s.take()
		if err != nil {
			return err
		}
		if !(c.UserData == a && c.Res == resA || c.UserData == b && c.Res == resB) {
			return fmt.Errorf("got %v, want request %d with %d and request %d with %d", c, a, resA, b, resB)
		}
	}
	return nil
}

func (s *selfTest) nop() error {
	s.ring.nop(1)
	return s.expect(1, 0)
}

// timedWait must come back although nothing completes.
func (s *selfTest) timedWait() error {
	if err := s.ring.Wait(time.Microsecond); err != nil {
		return err
	}
	if _, ok := s.ring.Next(); ok {
		return errors.New("a completion of nothing")
	}
	return nil
}

func (s *selfTest) send() error {
	copy(s.mem, "probe")
	s.ring.Send(s.pair[0], s.mem[:5], 0, 2)
	return s.expect(2, 5)
}

// recv takes what send sent, out of a provided buffer, and the request stays armed.
func (s *selfTest) recv() (err error) {
	if s.group, err = s.ring.NewBuffers(0, 2, 16); err != nil {
		return err
	}
	s.ring.Recv(s.pair[1], 0, 3)
	for i := range 2 {
		c, err := s.take()
		if err != nil {
			return err
		}
		id, ok := c.Buffer()
		if !ok || !c.More() || c.Res < 0 || string(s.group.Bytes(id, int(c.Res))) != "probe" {
			return fmt.Errorf("got %v, want 5 bytes in a buffer and more", c)
		}
		s.group.Release(id)
		if i == 0 {
			if err := s.send(); err != nil {
				return err
			}
		}
	}
	s.ring.Cancel(3, 4)
	return s.expectBoth(3, -int32(unix.ECANCELED), 4, 0)
}

func (s *selfTest) accept() error {
	s.ring.Accept(s.listen, 5)
	if err := s.ring.Submit(); err != nil {
		return err
	}
	name, err := unix.Getsockname(s.listen)
	if err != nil {
		return err
	}
	if err := unix.Connect(s.extra, name); err != nil {
		return fmt.Errorf("connect: %w", err)
	}
	c, err := s.take()
	if err != nil {
		return err
	}
	if c.Res < 0 || !c.More() {
		return fmt.Errorf("got %v, want a descriptor and more", c)
	}
	s.opened = append(s.opened, int(c.Res))
	s.ring.CancelFD(s.listen, 6)
	return s.expectBoth(5, -int32(unix.ECANCELED), 6, 1)
}

// read waits at the current position of an eventfd until somebody rings.
func (s *selfTest) read() error {
	s.ring.Read(s.event, s.mem[:8], -1, 7)
	if err := s.timedWait(); err != nil {
		return err
	}
	if _, err := unix.Write(s.event, []byte{1, 0, 0, 0, 0, 0, 0, 0}); err != nil {
		return fmt.Errorf("ring an eventfd: %w", err)
	}
	return s.expect(7, 8)
}

func (s *selfTest) poll() error {
	s.ring.PollOut(s.pair[0], 8)
	c, err := s.take()
	if err == nil && (c.Res < 0 || c.Res&unix.POLLOUT == 0) {
		err = fmt.Errorf("got %v, want POLLOUT", c)
	}
	return err
}

// prefetch completes once, with the last byte.
func (s *selfTest) prefetch() error {
	s.mem[0] = 0
	s.ring.Prefetch(s.file, 0, 4096, s.mem, 9)
	if err := s.expect(9, 1); err != nil {
		return err
	}
	if s.mem[0] != 'x' {
		return fmt.Errorf("read %q, want the file's last byte", s.mem[0])
	}
	return s.timedWait()
}

func (s *selfTest) cancel() error {
	s.ring.Read(s.event, s.mem[:8], -1, 10)
	s.ring.Cancel(10, 11)
	return s.expectBoth(10, -int32(unix.ECANCELED), 11, 0)
}

func (s *selfTest) cancelFD() error {
	s.ring.Read(s.event, s.mem[:8], -1, 12)
	s.ring.CancelFD(s.event, 13)
	return s.expectBoth(12, -int32(unix.ECANCELED), 13, 1)
}
