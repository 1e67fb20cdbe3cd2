package server

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/talon-worker/talon/qos"
)

// admissionRoom is the memory that each ring's admissions have in the log: 350,000 lines, half an hour of two hundred a second.
const admissionRoom = 16 << 20

// admissionLine is the most that one line takes: two numbers of 20 characters, a metric of 19, a tenant of 64, and what is between them.
const admissionLine = 128

// admissionsFull is the last line of a ring whose room is used up.
const admissionsFull = "full\n"

// An AdmissionLog is a file that every charge of a limit and every refund is written to, for audits: whoever merges the logs of all workers can hold
// them against the contract. Each ring has a part of its own, admissionRoom long, that it fills from the front; NULs follow. A line is
//
//	<ns of CLOCK_BOOTTIME> <units, negative if given back> <metric> <tenant>
//
// The file is mapped, and a ring writes to memory: it makes no system call and waits for nobody, and what it has written is in the file when the
// process has been killed. (A buffer that a goroutine writes out, as the access log has, would lose just the last admissions of a worker that dies.)
// A ring whose part is full says so in its last line and writes no more.
type AdmissionLog struct {
	parts []admissions
	room  []byte // of all
}

// admissions is one ring's part.
type admissions struct {
	room []byte // what is left of it
	line []byte // scratch
	over bool
}

// OpenAdmissionLog makes the file for so many rings. One that exists is refused: it is the record of another incarnation.
func OpenAdmissionLog(name string, rings int) (*AdmissionLog, error) {
	f, err := os.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o640)
	switch {
	case errors.Is(err, fs.ErrExist):
		return nil, fmt.Errorf("%s is there already, and is the record of an earlier start: give every start a file of its own", name)
	case err != nil:
		return nil, err
	}
	defer f.Close()
	size := rings * admissionRoom
	// On a full disk a store to a page that has no block kills the process: take the blocks now.
	if err := unix.Fallocate(int(f.Fd()), 0, 0, int64(size)); err != nil {
		_ = os.Remove(name)
		return nil, fmt.Errorf("%s: %d MiB for %d rings: %w", name, size>>20, rings, err)
	}
	room, err := unix.Mmap(int(f.Fd()), 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		_ = os.Remove(name)
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	a := &AdmissionLog{room: room}
	for i := range rings {
		a.parts = append(a.parts, admissions{room: room[i*admissionRoom:][:admissionRoom:admissionRoom], line: make([]byte, 0, admissionLine)})
	}
	return a, nil
}

// Close gives the memory back. No ring may run any more.
func (a *AdmissionLog) Close() error { return unix.Munmap(a.room) }

// note writes a line.
func (p *admissions) note(at, n int64, m qos.Metric, tenant string) {
	if p.over {
		return
	}
	if len(p.room) < admissionLine+len(admissionsFull) {
		copy(p.room, admissionsFull)
		p.over = true
		return
	}
	b := strconv.AppendInt(p.line[:0], at, 10)
	b = strconv.AppendInt(append(b, ' '), n, 10)
	b = append(append(append(b, ' '), m.String()...), ' ')
	b = append(append(b, tenant[:min(len(tenant), 64)]...), '\n')
	copy(p.room, b)
	p.room = p.room[len(b):]
}

// noteAdmission records n units of a limit as charged now, or as given back if negative.
func (l *loop) noteAdmission(s *seat, m *meter, n int64) {
	if l.admissions != nil {
		l.admissions.note(l.clock().boot, n, metricOf[m.which], s.account.id) // the clock is read anew: the turn's may be as old as the turn is long
	}
}
