package main

import (
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func TestFilesShort(t *testing.T) {
	for _, c := range []struct {
		limit                         uint64
		connections, openFiles, rings int
		short                         bool
	}{
		{20000, 16384, 1024, 2, false}, // the defaults on two cores
		{16384 + 2048 + reservedFiles, 16384, 1024, 2, false},
		{16384 + 2048 + reservedFiles - 1, 16384, 1024, 2, true},
		{20000, 16384, 1024, 8, true},
		{1024, 16384, 1024, 2, true},
	} {
		got := filesShort(c.limit, c.connections, c.openFiles, c.rings)
		if (got != "") != c.short {
			t.Errorf("%+v: got %q", c, got)
		}
	}
	if got := filesShort(1024, 900, 10, 2); !strings.Contains(got, "1024") || !strings.Contains(got, "1048") {
		t.Errorf("the warning names neither limit nor need: %q", got)
	}
}

func TestRaiseNoFile(t *testing.T) {
	var before, after unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &before); err != nil {
		t.Fatal(err)
	}
	lowered := before
	lowered.Cur = min(256, before.Max)
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &lowered); err != nil {
		t.Fatal(err)
	}
	got, err := raiseNoFile()
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &after); err != nil {
		t.Fatal(err)
	}
	if got != before.Max || after.Cur != before.Max {
		t.Errorf("raised to %d, reported %d; want the hard limit %d", after.Cur, got, before.Max)
	}
}
