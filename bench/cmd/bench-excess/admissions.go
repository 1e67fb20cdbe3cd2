package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/talon-worker/talon/bench/bed"
	"github.com/talon-worker/talon/bench/excess"
)

// boottime is the clock of the workers' admission logs.
func boottime() int64 {
	var ts unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts) // it fails only for a clock that does not exist
	return ts.Nano()
}

// admissions are the logs of all starts of all workers, read as they are written. Each is that of one ring: lines, and then NULs.
type admissions struct {
	read   map[string]int64 // by file: the bytes that are known
	of     map[string][]excess.Event
	lines  int
	latest map[string]int // by tenant: how many of its events are older than any that recent will be asked for
}

func newAdmissions() *admissions {
	return &admissions{read: map[string]int64{}, of: map[string][]excess.Event{}, latest: map[string]int{}}
}

// follow reads what is new in a log. The last line may be half of one, if its worker was killed over it: it is left out.
func (a *admissions) follow(name string) error {
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	if _, err := f.Seek(a.read[name], io.SeekStart); err != nil {
		return err
	}
	in := bufio.NewReaderSize(f, 64<<10)
	for {
		line, err := in.ReadSlice('\n')
		if bytes.IndexByte(line, 0) >= 0 || err != nil {
			return nil
		}
		part := strings.Fields(string(line))
		if len(part) != 4 {
			return fmt.Errorf("%s: %q: want time, units, metric and tenant; a log that is full says so", name, line)
		}
		at, err1 := strconv.ParseInt(part[0], 10, 64)
		n, err2 := strconv.ParseInt(part[1], 10, 64)
		if err1 != nil || err2 != nil {
			return fmt.Errorf("%s: %q: want time and units", name, line)
		}
		a.read[name] += int64(len(line))
		a.lines++
		if part[2] == "client_egress_bytes" {
			a.of[part[3]] = append(a.of[part[3]], excess.Event{At: at, Bytes: n})
		}
	}
}

// since is what a tenant was admitted from a time on. The time must not go back.
func (a *admissions) since(tenant string, at int64) (sum int64) {
	events := a.of[tenant]
	skip := a.latest[tenant]
	for skip < len(events) && events[skip].At < at-int64(time.Minute) { // logs are read one after the other, so they are in order only roughly
		skip++
	}
	a.latest[tenant] = skip
	for _, e := range events[skip:] {
		if e.At >= at {
			sum += e.Bytes
		}
	}
	return sum
}

// followAll reads what is new in all logs.
func (c *cluster) followAll() error {
	for worker, starts := range c.starts {
		for i := range starts {
			if err := c.admitted.follow(c.admissionLog(worker, i+1)); err != nil {
				return err
			}
		}
	}
	return nil
}

// recovered waits, for at most so long, until every tenant has been admitted for a second what is due to it, and a little more for clients to
// receive it. Nothing is judged by that: it only says when the next episode may begin.
func (c *cluster) recovered(ctx context.Context, patience time.Duration) error {
	mended := boottime()
	for {
		if err := errors.Join(bed.Sleep(ctx, 50*time.Millisecond), c.followAll()); err != nil {
			return err
		}
		now := boottime()
		begin := now - int64(lookTime)
		well := begin >= mended
		for i, t := range c.tenants {
			well = well && float64(c.admitted.since(t.ID, begin)) >= 1.02*wantDelivered*float64(c.o.rate(i))*lookTime.Seconds()
		}
		if well || now-mended > int64(patience+lookTime) {
			return bed.Sleep(ctx, 200*time.Millisecond)
		}
	}
}
