package policy

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// maxProblems bounds what Parse reports of one file: a wrong file named by mistake may have a million. maxNoted bounds what it looks through
// for the first of them; the rest is only counted.
const (
	maxProblems = 100
	maxNoted    = 1000
)

// Problem is something that is wrong in a file, and how to mend it, in one line.
type Problem struct {
	Name string // of the file
	Line int    // from 1
	Text string
}

func (p Problem) Error() string { return fmt.Sprintf("%s:%d: %s", p.Name, p.Line, p.Text) }

// Problems are all that is wrong, in the order of the lines.
type Problems []Problem

func (p Problems) Error() string {
	lines := make([]string, len(p))
	for i := range p {
		lines[i] = p[i].Error()
	}
	return strings.Join(lines, "\n")
}

// settled sorts, drops what is said twice (a fault of the defaults shows in every tenant), and keeps the first maxProblems. Beside them there are
// more.
func (p Problems) settled(more int) Problems {
	slices.SortStableFunc(p, func(a, b Problem) int { return cmp.Compare(a.Line, b.Line) })
	seen := map[Problem]bool{}
	p = slices.DeleteFunc(p, func(one Problem) bool {
		again := seen[one]
		seen[one] = true
		return again
	})
	if over := len(p) - maxProblems; over > 0 {
		last := p[maxProblems]
		p = append(p[:maxProblems], Problem{last.Name, last.Line, fmt.Sprintf("and %d problems more", over+more)})
	}
	return p
}
