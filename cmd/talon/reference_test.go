package main

import (
	"bytes"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/pflag"
)

// TestFlagReference keeps docs/flags.md what the program says:
//
//	go test ./cmd/talon -run TestFlagReference -args -rewrite
func TestFlagReference(t *testing.T) {
	const path = "../../docs/flags.md"
	got := flagReference(newServe().Flags())
	if *rewrite {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s is out of date; run: go test ./cmd/talon -run TestFlagReference -args -rewrite", path)
	}
}

func flagReference(fs *pflag.FlagSet) []byte {
	var b bytes.Buffer
	b.WriteString("# Flags of `talon serve`\n\nGenerated from the program; `talon serve --help` says the same.\n\n" +
		"Sizes are bytes (`65536`) or a whole number with a unit: `KiB`, `MiB`, `GiB` are powers of 1024,\n`kB`, `MB`, `GB` of 1000; `64K` is refused because it could be either. " +
		"Rates are sizes per second\n(`1KiB/s`). Durations are written `500ms`, `30s`, `2m`.\n\n" +
		"| flag | value | default | meaning |\n|---|---|---|---|\n")
	fs.VisitAll(func(f *pflag.Flag) {
		kind, usage := pflag.UnquoteUsage(f)
		fmt.Fprintf(&b, "| `--%s` | %s | %s | %s |\n", f.Name, orDash(kind), defaultText(f.DefValue), strings.ReplaceAll(usage, "|", `\|`))
	})
	return b.Bytes()
}

func orDash(s string) string {
	if s == "" {
		return "true, false"
	}
	return s
}

func defaultText(s string) string {
	if s == "" {
		return "none"
	}
	return "`" + s + "`"
}

// TestReadmeFlags wants every flag that README.md names to exist.
func TestReadmeFlags(t *testing.T) {
	page, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	named := regexp.MustCompile("`(?:talon [a-z]+ )?--([a-z-]+)").FindAllStringSubmatch(string(page), -1)
	if len(named) < 10 {
		t.Errorf("README.md names %d flags; is it read as it is written?", len(named))
	}
	serve := newServe()
	serve.InitDefaultHelpFlag()
	for _, m := range named {
		if serve.Flags().Lookup(m[1]) == nil {
			t.Errorf("README.md names --%s, which talon serve does not have", m[1])
		}
	}
}
