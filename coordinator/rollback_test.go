package coordinator

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// Going back to any generation gives the records of that generation, whatever happened in between: against a twin that keeps whole copies.
func TestBackToProperty(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		names := []string{"tenant/a", "tenant/b", "class/x", "defaults"}
		b, history, copies := Book{}, []Version{}, []Book{{}}
		for range rapid.IntRange(1, 15).Draw(t, "changes") {
			var records []Record
			for _, n := range names {
				if k := rapid.IntRange(0, 3).Draw(t, n); k > 0 {
					records = append(records, Record{Name: n, Text: fmt.Sprintf("{id: v%d}\n", k)})
				}
			}
			c := b.ChangeTo(records, true)
			if c.Empty() {
				continue
			}
			next := b.Apply(c, b.Generation+1)
			history = append(versions(b, c, next.Generation, "x", time.Time{}), history...)
			b, copies = next, append(copies, next)
		}
		if b.Generation == 0 {
			return
		}
		to := rapid.Uint64Range(1, b.Generation).Draw(t, "to")
		c, err := b.BackTo(to, history)
		if err != nil {
			t.Fatal(err)
		}
		if got, want := texts(b.Apply(c, b.Generation+1)), texts(copies[to]); !slices.Equal(got, want) {
			t.Fatalf("back to %d: %v, want %v", to, got, want)
		}
	})
}

// texts are a book's records without generations; defaults that say nothing are none.
func texts(b Book) (out []string) {
	for _, r := range b.Records {
		if r.Text != noDefaults {
			out = append(out, r.Name+"="+r.Text)
		}
	}
	return out
}

func TestBackToSaysWhatItCannotKnow(t *testing.T) {
	b := Book{Generation: 30, Records: []Record{{Name: "tenant/a", Generation: 20, Text: "{id: a}"}, {Name: "tenant/b", Generation: 30, Text: "{id: b}"}}}
	history := []Version{{Record: b.Records[1], New: true}, {Record: Record{Name: "tenant/c", Generation: 28}}, {Record: b.Records[0]}}
	for _, tc := range []struct {
		to    uint64
		names []string
		want  string
	}{
		{0, nil, "1 to 30"}, {31, nil, "1 to 30"}, {15, nil, "history begins with 20"}, {25, []string{"tenant/z"}, "nothing of that name"},
		{25, nil, "tenant/c: what it was at generation 25 is not remembered"},
	} {
		if _, err := b.BackTo(tc.to, history, tc.names...); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("back to %d: %v, want %q", tc.to, err, tc.want)
		}
	}
	if c, err := b.BackTo(25, history, "tenant/a", "tenant/b"); err != nil || len(c.Remove) != 1 || c.Remove[0] != "tenant/b" || len(c.Set) != 0 {
		t.Errorf("back to 25: %+v, %v, want b removed", c, err)
	}
}
