package server

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
)

var rewrite = flag.Bool("rewrite", false, "write generated pages instead of comparing with them")

// TestHTTPPage keeps the generated parts of docs/http.md what the tests hold the
// server to:
//
//	go test ./server -run TestHTTPPage -args -rewrite
func TestHTTPPage(t *testing.T) {
	const path = "../docs/http.md"
	page, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	got := page
	for name, text := range map[string]string{"limits": limitsTable(), "inputs": inputsTable()} {
		part := regexp.MustCompile(`(?s)(<!-- generated: ` + name + ` -->\n).*?(<!-- end -->)`)
		if !part.Match(got) {
			t.Fatalf("%s has no place for the %s", path, name)
		}
		got = part.ReplaceAllFunc(got, func(old []byte) []byte {
			m := part.FindSubmatch(old)
			return bytes.Join([][]byte{m[1], []byte(text), m[2]}, nil)
		})
	}
	if *rewrite {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
	} else if !bytes.Equal(got, page) {
		t.Errorf("%s is out of date; run: go test ./server -run TestHTTPPage -args -rewrite", path)
	}
}

func limitsTable() string {
	var b strings.Builder
	b.WriteString("\n| limit | is | beyond it |\n|---|---|---|\n")
	for _, l := range []struct {
		name string
		is   any
		then fault
	}{
		{"request line, with its CR LF", fmt.Sprintf("%d bytes", maxRequestLine), faultRequestLineSize},
		{"header lines together, with the empty one", fmt.Sprintf("%d bytes", maxHeader), faultHeaderSize},
		{"key, decoded", fmt.Sprintf("%d bytes", maxKey), faultKeySize},
		{"time from a request's first byte to the end of its header", DefaultHeaderTimeout, faultHeaderTimeout},
	} {
		fmt.Fprintf(&b, "| %s | %v | %s |\n", l.name, l.is, l.then.answer())
	}
	fmt.Fprintf(&b, "| time between two requests | %v | closed |\n", DefaultIdleTimeout)
	fmt.Fprintf(&b, "| reading speed of the client, over %v | %d bytes/s | reset |\n", DrainWindow, DefaultMinDrainRate)
	fmt.Fprintf(&b, "| bytes discarded behind the last answer of a connection | %d | reset |\n\n", lingerMax)
	return b.String()
}

// answer is what a client sees of a fault, as wireCase.answer has it.
func (f fault) answer() string {
	if f.closes() {
		return fmt.Sprintf("%d, close", f.status())
	}
	return fmt.Sprint(f.status())
}

func inputsTable() string {
	var b strings.Builder
	for _, section := range wireTable {
		fmt.Fprintf(&b, "\n### %s\n\n| input | answer | reason |\n|---|---|---|\n", section.title)
		for _, c := range section.cases {
			reason := c.why
			if c.want != faultNone {
				if reason != "" {
					reason = "; " + reason
				}
				reason = c.want.text() + reason
			}
			fmt.Fprintf(&b, "| %s | %s | %s |\n", inputCell(c.in), c.answer, tableText.Replace(reason))
		}
	}
	return b.String() + "\n"
}

// tableText makes a text safe in a cell of a table.
var tableText = strings.NewReplacer("|", `\|`, "*", `\*`, "_", `\_`, "`", "\\`", "<", `\<`)

// inputCell writes an input as a Go string would be, long repetitions as
// {piece × times}.
func inputCell(in string) string {
	const inACell = 64
	s := strings.Trim(fmt.Sprintf("%q", shorten(in, inACell)), `"`)
	s = strings.ReplaceAll(s, `\"`, `"`)
	return "<code>" + strings.NewReplacer("&", "&amp;", "<", "&lt;", "|", "&#124;", "*", "&#42;", "`", "&#96;", "_", "&#95;").Replace(s) + "</code>"
}

// shorten replaces repetitions of a piece of up to 24 bytes that are longer than
// limit.
func shorten(s string, limit int) string {
	var b strings.Builder
	for len(s) > 0 {
		piece, times := 1, 1
		for p := 1; p <= 24 && p*2 <= len(s) && s[0] != '\r' && s[0] != '\n'; p++ { // a line's end belongs to it
			n := 1
			for strings.HasPrefix(s[n*p:], s[:p]) {
				n++
			}
			if n*p > limit && n*p > piece*times {
				piece, times = p, n
			}
		}
		if times == 1 {
			b.WriteByte(s[0])
			s = s[1:]
			continue
		}
		fmt.Fprintf(&b, "{%s × %d}", s[:piece], times)
		s = s[piece*times:]
	}
	return b.String()
}

func TestShorten(t *testing.T) {
	for in, want := range map[string]string{
		"GET / HTTP/1.1\r\n":                    "GET / HTTP/1.1\r\n",
		"/" + strings.Repeat("k", 99) + " H":    "/{k × 99} H",
		strings.Repeat("a: b\r\n", 50) + "\r\n": "{a: b\r\n × 50}\r\n",
		"\xff\x00":                              "\xff\x00",
	} {
		if got := shorten(in, 64); got != want {
			t.Errorf("shorten(%q) = %q, want %q", in, got, want)
		}
	}
}
