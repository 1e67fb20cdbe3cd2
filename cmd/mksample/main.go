// Command mksample makes a small tree of objects to try the server with:
//
//	go run ./cmd/mksample ./sample
//
// It needs 82 MiB, and leaves alone the files that are there already.
package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
)

// sizes are the objects of pseudo-random bytes, from one that is copied behind
// its header to one that takes hundreds of turns.
var sizes = []struct {
	name  string
	bytes int64
}{
	{"1KiB.bin", 1 << 10}, {"4KiB.bin", 4 << 10}, {"16KiB.bin", 16 << 10}, {"64KiB.bin", 64 << 10},
	{"256KiB.bin", 256 << 10}, {"1MiB.bin", 1 << 20}, {"16MiB.bin", 16 << 20}, {"64MiB.bin", 64 << 20},
}

func main() {
	if len(os.Args) != 2 || strings.HasPrefix(os.Args[1], "-") {
		fmt.Fprintln(os.Stderr, "usage: mksample DIRECTORY")
		os.Exit(2)
	}
	if err := makeSample(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "mksample:", err)
		os.Exit(1)
	}
}

func makeSample(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	for i, s := range sizes {
		// The same bytes every time, so that two trees can be compared.
		random := rand.NewChaCha8([32]byte{byte(i)})
		if err := makeFile(filepath.Join(dir, s.name), io.LimitReader(random, s.bytes), s.bytes); err != nil {
			return err
		}
	}
	for name, text := range map[string]string{"index.html": page(), "list.txt": list()} {
		if err := makeFile(filepath.Join(dir, name), strings.NewReader(text), int64(len(text))); err != nil {
			return err
		}
	}
	return nil
}

// makeFile writes body under a temporary name and renames it: a server may be
// reading the old file, and must never see half of the new one.
func makeFile(path string, body io.Reader, size int64) error {
	info, err := os.Stat(path)
	if err == nil && info.Size() == size {
		return nil
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(path), ".mksample-")
	if err != nil {
		return err
	}
	_, err = io.Copy(f, body)
	err = errors.Join(err, f.Chmod(0o644), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return nil
}

// list names every object, one per line.
func list() string {
	var b strings.Builder
	for _, s := range sizes {
		fmt.Fprintf(&b, "%s %d\n", s.name, s.bytes)
	}
	return b.String()
}

func page() string {
	var b strings.Builder
	b.WriteString("<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>talon sample</title></head>\n" +
		"<body><h1>It works</h1>\n<p>Objects of pseudo-random bytes:</p>\n<ul>\n")
	for _, s := range sizes {
		fmt.Fprintf(&b, "<li><a href=\"%s\">%s</a></li>\n", s.name, s.name)
	}
	b.WriteString("</ul>\n<p><a href=\"list.txt\">list.txt</a></p>\n</body></html>\n")
	return b.String()
}
