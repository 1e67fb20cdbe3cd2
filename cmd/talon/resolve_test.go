package main

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// TestPrintedFileIsTheSame: what talon config -o yaml prints, read as a file
// without flags and environment, is the same configuration.
func TestPrintedFileIsTheSame(t *testing.T) {
	path := filepath.Join(t.TempDir(), "talon.yaml")
	rapid.Check(t, func(t *rapid.T) {
		c := call{flags: map[string]string{}}
		for _, s := range someSettings(t, "flag") {
			c.flags[s.name] = s.value.String()
		}
		for _, s := range someSettings(t, "env") {
			c.environ = append(c.environ, s.env()+"="+s.value.String())
		}
		want, found := c.read()
		if len(found) > 0 {
			t.Fatalf("%+v: %v", c, found)
		}
		var page strings.Builder
		if err := want.printYAML(&page); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(page.String()), 0o600); err != nil {
			t.Fatal(err)
		}
		got, found := call{file: path}.read()
		if len(found) > 0 {
			t.Fatalf("%v in\n%s", found, page.String())
		}
		if got.serveFlags != want.serveFlags {
			t.Fatalf("got  %+v\nwant %+v\nin\n%s", got.serveFlags, want.serveFlags, page.String())
		}
		for i, s := range got.settings() {
			if at := fmt.Sprintf("%s:%d", path, i+1); got.from[s.name] != (source{fromFile, at}) {
				t.Fatalf("%s comes from %v, want %s", s.name, got.from[s.name], at)
			}
		}
	})
}

// someSettings draws values for some of the rows, not only sensible ones.
func someSettings(t *rapid.T, label string) (some []setting) {
	f := &serveFlags{
		listen: text(t), admin: text(t), origin: text(t), anonymousTenant: text(t), logLevel: text(t), logFormat: text(t),
		rings: rapid.Int().Draw(t, "rings"), maxConnections: rapid.Int().Draw(t, "max"), openFiles: rapid.Int().Draw(t, "files"),
		residencyProbe: rapid.Bool().Draw(t, "probe"),
		copyBelow:      bytesOf(t), transferChunk: bytesOf(t), notSentLowat: bytesOf(t), sendBuffer: bytesOf(t), minDrainRate: rate(bytesOf(t)),
		openFileValid: duration(t), headerTimeout: duration(t), idleTimeout: duration(t), drainTimeout: duration(t),
		policy: text(t), metricsAlways: text(t), egressRate: rate(bytesOf(t)), tenantQueueBytes: bytesOf(t), bootstrap: bytesOf(t),
		accessLog: text(t), accessLogSample: rapid.Int().Draw(t, "sample"), admissionLog: text(t),
		tenantWeight: rapid.Int().Draw(t, "weight"), tenantQueueDeadline: duration(t), snapshotTTL: duration(t),
	}
	for _, s := range f.settings() {
		if rapid.Bool().Draw(t, label) {
			some = append(some, s)
		}
	}
	return some
}

// text draws what YAML likes to take for something else, anything that is
// UTF-8, and bytes that are not.
func text(t *rapid.T) string {
	return rapid.OneOf(
		rapid.SampledFrom([]string{"", " ", "~", "null", "yes", "true", "1", "1.0", "1:30", "0x10", "2026-01-01", "<<", "*a", "&a", "!t", "# c", "a: b", "- a", "'", `"`, "\\", "a\n  b\n", "\t", "\x85", "\xff\xfe"}),
		rapid.String(),
	).Draw(t, "text")
}

func bytesOf(t *rapid.T) size {
	return size(rapid.Int64Min(0).Draw(t, "bytes")) << rapid.SampledFrom([]uint{0, 10, 20, 30}).Draw(t, "shift") & (1<<63 - 1)
}

func duration(t *rapid.T) time.Duration { return time.Duration(rapid.Int64().Draw(t, "duration")) }

// TestEveryLevelWins takes every setting through all sets of sources and wants
// the strongest to win, with its name.
func TestEveryLevelWins(t *testing.T) {
	known := defaults()
	for i, s := range known.settings() {
		for levels := range 8 {
			c, want, from := call{flags: map[string]string{}}, s.value.String(), source{kind: fromDefault}
			if levels&1 != 0 {
				c.file = filepath.Join(t.TempDir(), "f.yaml")
				want, from = other(s, 1), source{fromFile, c.file + ":2"}
				quoted := want
				if s.value.Type() == "string" {
					quoted = `"` + want + `"`
				}
				if err := os.WriteFile(c.file, []byte("# first\n"+s.name+": "+quoted+"\n"), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			if levels&2 != 0 {
				want, from = other(s, 2), source{fromEnv, s.env()}
				c.environ = []string{"PATH=/bin", s.env() + "=" + want}
			}
			if levels&4 != 0 {
				want, from = other(s, 3), source{kind: fromFlag}
				c.flags[s.name] = want
			}
			e, found := c.read()
			if len(found) > 0 {
				t.Fatalf("%s, levels %03b: %v", s.name, levels, found)
			}
			if got := e.settings()[i].value.String(); got != want || e.from[s.name] != from {
				t.Errorf("%s, levels %03b: got %q from %v, want %q from %v", s.name, levels, got, e.from[s.name], want, from)
			}
		}
	}
}

// other returns the k-th value of a setting that is not its default.
func other(s setting, k int) string {
	switch s.value.Type() {
	case "bool":
		return []string{"", "true", "false", "true"}[k]
	case "string":
		return fmt.Sprint("other", k)
	case "int":
		return fmt.Sprint(40 + k)
	case "duration":
		return fmt.Sprint(40+k, "s")
	case "rate":
		return fmt.Sprint(40+k, "KiB/s")
	}
	return fmt.Sprint(40+k, "KiB")
}

// TestTableIsWhole: a field of serveFlags without a row could not be set, and
// two rows on one field would undo each other.
func TestTableIsWhole(t *testing.T) {
	var f serveFlags
	rows := f.settings()
	if fields := reflect.TypeOf(f).NumField(); fields != len(rows) {
		t.Errorf("%d fields, %d rows", fields, len(rows))
	}
	names, values := map[string]bool{}, map[uintptr]bool{}
	for _, s := range rows {
		names[s.name], values[reflect.ValueOf(s.value).Pointer()] = true, true
		if strings.ContainsAny(s.name, "._ ") || strings.ToLower(s.name) != s.name {
			t.Errorf("%q cannot be a flag, a variable and a key", s.name)
		}
		if serviceLink.MatchString(s.env()) {
			t.Errorf("%s looks like a service's address to readEnviron", s.env())
		}
	}
	if len(names) != len(rows) || len(values) != len(rows) {
		t.Errorf("%d rows, %d names, %d fields", len(rows), len(names), len(values))
	}
}

func TestDefaultsAreGood(t *testing.T) {
	e, found := call{flags: map[string]string{"origin": "."}}.resolve()
	if len(found) > 0 {
		t.Error(found)
	}
	if got := e.warnings(20000); e.rings == 0 && ringCount(0) == 2 && len(got) > 0 {
		t.Errorf("on two cores: %v", got)
	}
}

// TestDistance compares with the definition, which is slow.
func TestDistance(t *testing.T) {
	var slow func(a, b string) int
	slow = func(a, b string) int {
		switch {
		case a == "" || b == "":
			return len(a) + len(b)
		case a[0] == b[0]:
			return slow(a[1:], b[1:])
		}
		return 1 + min(slow(a[1:], b), slow(a, b[1:]), slow(a[1:], b[1:]))
	}
	random := rand.New(rand.NewPCG(1, 2))
	draw := func() string {
		b := make([]byte, random.IntN(7))
		for i := range b {
			b[i] = "abc"[random.IntN(3)]
		}
		return string(b)
	}
	for range 2000 {
		if a, b := draw(), draw(); distance(a, b) != slow(a, b) {
			t.Fatalf("distance(%q, %q) = %d, want %d", a, b, distance(a, b), slow(a, b))
		}
	}
}

// FuzzFile: whatever a file holds, each problem names it and a line, and a file
// without problems can be printed and read again.
func FuzzFile(f *testing.F) {
	for _, seed := range []string{"", "rings: 4\n", "origin: &a /srv\nadmin: *a\n", "a: [1, {b: c}]\n", "---\n---\n", "rings: 0x1_0\n",
		"? {a: b}\n: 1\n", "origin: !!binary /w==\n", "sndbuf: 99999999999999999999\n", "rings: \"\n", "\xff\xfe", "%YAML 1.1\n---\nrings: 010\n"} {
		f.Add([]byte(seed))
	}
	path := filepath.Join(f.TempDir(), "again.yaml")
	f.Fuzz(func(t *testing.T, text []byte) {
		first, found := parseFile("f.yaml", text)
		for _, err := range found {
			if !strings.HasPrefix(err.Error(), "f.yaml:") || strings.HasPrefix(err.Error(), "f.yaml:0") {
				t.Errorf("no line in %q", err)
			}
		}
		if len(found) > 0 {
			return
		}
		e := &effective{defaults(), first.at}
		for _, s := range e.settings() {
			if first.values.Exists(s.name) {
				if err := s.value.Set(fmt.Sprint(first.values.Get(s.name))); err != nil {
					t.Errorf("%s was judged good and cannot be set: %v", s.name, err)
				}
			}
		}
		var page strings.Builder
		if err := e.printYAML(&page); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(page.String()), 0o600); err != nil {
			t.Fatal(err)
		}
		if again, found := (call{file: path}).read(); len(found) > 0 || again.serveFlags != e.serveFlags {
			t.Errorf("read again: %v, %+v, want %+v", found, again, e.serveFlags)
		}
	})
}

// TestFileIsBounded: a file named by mistake is not read into memory.
func TestFileIsBounded(t *testing.T) {
	path := filepath.Join(t.TempDir(), "talon.yaml")
	for size, ok := range map[int]bool{maxFile: true, maxFile + 1: false} {
		text := "rings: 4\n#" + strings.Repeat("x", size-10)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, found := (call{file: path}).read(); (len(found) == 0) != ok {
			t.Errorf("a file of %d bytes: %v", size, found)
		}
	}
}
