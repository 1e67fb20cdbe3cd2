package coordinator

import (
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/talon-worker/talon/qos"
)

const hash = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

// start is a policy with everything that a record can be.
const start = `# our tenants
tenants:
  - id: serving # the website
    class: gold
    allow: ["/"]
    tokens: [{id: s1, sha256: "` + hash + `"}]
    limits:
      read_iops: {rate: 20000/s, burst: 2000, local_burst: 500}
  - {id: batch, allow: [/batch/]}
classes:
  gold: {weight: 4}
defaults: {weight: 1, limits: {client_egress_bytes: {rate: 1MiB/s, burst: 1MiB, local_burst: 64KiB}}}
`

func split(t *testing.T, text string) []Record {
	t.Helper()
	records, _, err := Split("p.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return records
}

func resolve(t *testing.T, b Book) *Policy {
	t.Helper()
	p, err := b.Resolve()
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func generation(p *Policy, tenant string, m qos.Metric) uint64 {
	for _, l := range p.Limits {
		if l.Tenant == tenant && l.Metric == m {
			return l.Generation
		}
	}
	return 0
}

func TestSplitNamesAndKeepsComments(t *testing.T) {
	var names []string
	for _, r := range split(t, start) {
		names = append(names, r.Name)
		if r.Name == "tenant/serving" && !strings.Contains(r.Text, "# the website") {
			t.Errorf("the comment is lost:\n%s", r.Text)
		}
	}
	if want := []string{"class/gold", "defaults", "tenant/batch", "tenant/serving"}; !slices.Equal(names, want) {
		t.Errorf("records %v, want %v", names, want)
	}
}

func TestSplitSaysWhatIsWrongByLine(t *testing.T) {
	_, _, err := Split("p.yaml", []byte("tenants:\n  - {id: a, wait: 3}\n"))
	if err == nil || !strings.Contains(err.Error(), "p.yaml:2") {
		t.Errorf("got %v, want the file and the line", err)
	}
}

// A story: what a change touches gets its generation, what inherits from it too, and nothing else.
func TestGenerations(t *testing.T) {
	b := Book{}
	change := func(text string) {
		t.Helper()
		c := b.ChangeTo(split(t, text), true)
		if c.Empty() {
			t.Fatal("nothing changed")
		}
		b = b.Apply(c, b.Generation+1)
	}
	check := func(what string, serving, batch, iops uint64) {
		t.Helper()
		p := resolve(t, b)
		if got := [3]uint64{p.TenantGeneration("serving"), p.TenantGeneration("batch"), generation(p, "serving", qos.ReadIOPS)}; got != [3]uint64{serving, batch, iops} {
			t.Errorf("%s: generations %v, want %v", what, got, [3]uint64{serving, batch, iops})
		}
	}
	change(start)
	check("the first", 1, 1, 1)
	change(strings.Replace(start, "rate: 20000/s", "rate: 10000/s", 1))
	check("one tenant's limit", 2, 1, 2)
	change(strings.Replace(start, "weight: 4", "weight: 5", 1))
	check("its class, and the limit back", 3, 1, 3)
	change(strings.Replace(start, "1MiB/s", "2MiB/s", 1))
	check("the defaults, and the class back", 4, 4, 4)
	change(strings.Replace(start, "  - {id: batch, allow: [/batch/]}\n", "", 1))
	check("a tenant is gone, and the defaults back", 5, 0, 5)
	change(start)
	check("the tenant is back", 5, 6, 5)
	noDefaults := strings.Join(strings.Split(start, "\n")[:11], "\n") + "\n"
	change(noDefaults)
	check("without defaults", 7, 7, 7)
	if c := b.ChangeTo(split(t, noDefaults), true); !c.Empty() {
		t.Errorf("the same again is a change: %+v", c)
	}
}

// Splitting and joining changes no tenant, in whatever order records are set and removed.
func TestSplitAndJoin(t *testing.T) {
	b := Book{}.Apply(Change{Set: split(t, start)}, 1)
	text, err := b.Join()
	if err != nil {
		t.Fatal(err)
	}
	if c := b.ChangeTo(split(t, string(text)), true); !c.Empty() {
		t.Errorf("a book that was joined and split again differs: %+v", c)
	}
}

// Whatever happened, a book is sorted, holds each name once, and the change that leads to a set of records leads to it.
func TestBookProperty(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := Book{}
		names := []string{"tenant/a", "tenant/b", "tenant/c", "class/x", "defaults"}
		for range rapid.IntRange(1, 20).Draw(t, "steps") {
			var records []Record
			for _, n := range names {
				if text := rapid.SampledFrom([]string{"", "{id: a}\n", "{id: b}\n"}).Draw(t, n); text != "" {
					records = append(records, Record{Name: n, Text: text})
				}
			}
			all := rapid.Bool().Draw(t, "all")
			next := b.Apply(b.ChangeTo(records, all), b.Generation+1)
			for i, r := range next.Records {
				if i > 0 && next.Records[i-1].Name >= r.Name {
					t.Fatalf("not sorted: %v", next.Records)
				}
				old := b.Find(r.Name)
				if changed := old == nil || old.Text != r.Text; changed != (r.Generation == next.Generation) {
					t.Fatalf("%s: generation %d after a change to %d, was %v", r.Name, r.Generation, next.Generation, old)
				}
			}
			for _, r := range records {
				if got := next.Find(r.Name); got == nil || got.Text != r.Text {
					t.Fatalf("%s is %v, want %q", r.Name, got, r.Text)
				}
			}
			b = next
		}
	})
}
