package main

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestMakeFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	write := func(text string) os.FileInfo {
		t.Helper()
		if err := makeFile(path, strings.NewReader(text), int64(len(text))); err != nil {
			t.Fatal(err)
		}
		got, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if len(got) != len(text) {
			t.Fatalf("%d bytes, want %d", len(got), len(text))
		}
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		return info
	}
	first := write("hello")
	past := time.Unix(1e9, 0)
	if err := os.Chtimes(path, past, past); err != nil {
		t.Fatal(err)
	}
	if kept := write("world"); !os.SameFile(first, kept) || !kept.ModTime().Equal(past) {
		t.Error("a file of the right size was written again")
	}
	if replaced := write("longer"); os.SameFile(first, replaced) {
		t.Error("a file was changed in place; a server may be reading it")
	}
	if mode := first.Mode().Perm(); mode != 0o644 {
		t.Errorf("mode %v: a server of another user could not read it", mode)
	}
}

func TestMakeFileLeavesNothing(t *testing.T) {
	dir := t.TempDir()
	// A directory is in the way: the rename fails.
	if err := os.Mkdir(filepath.Join(dir, "f"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := makeFile(filepath.Join(dir, "f"), io.LimitReader(strings.NewReader("x"), 1), 1); err == nil {
		t.Fatal("no error")
	}
	if left, _ := os.ReadDir(dir); len(left) != 1 {
		t.Errorf("left behind: %v", left)
	}
}
