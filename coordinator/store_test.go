package coordinator

import (
	"errors"
	"fmt"
	"strings"
	"testing"
)

// storeStory is what holds of every Store, by one that is empty.
func storeStory(t *testing.T, open func() Store) {
	s, ctx := open(), t.Context()
	old, err := s.Load(ctx)
	if !errors.Is(err, ErrNoPolicy) {
		t.Fatalf("an empty store: %v, %v", old, err)
	}
	first := Change{Set: split(t, start)}
	if g, err := s.Save(ctx, Book{}, first, "ann"); err != nil || g != 1 {
		t.Fatalf("the first: generation %d, %v", g, err)
	}
	if _, err := s.Save(ctx, Book{}, first, "bob"); !errors.Is(err, ErrConflict) {
		t.Fatalf("the first once more: %v, want a conflict", err)
	}
	if old, err = s.Load(ctx); err != nil || old.Generation != 1 || len(old.Records) != 4 {
		t.Fatalf("read back: %+v, %v", old, err)
	}
	changed := *old.Find("tenant/batch")
	changed.Text = strings.Replace(changed.Text, "/batch/", "/jobs/", 1)
	if g, err := s.Save(ctx, old, Change{Set: []Record{changed}}, "bob"); err != nil || g != 2 {
		t.Fatalf("a change: generation %d, %v", g, err)
	}
	if _, err := s.Save(ctx, old, Change{Remove: []string{"tenant/batch"}}, "cid"); !errors.Is(err, ErrConflict) {
		t.Fatalf("a change of what was read before: %v, want a conflict", err)
	}
	if old, err = s.Load(ctx); err != nil || old.Find("tenant/batch").Generation != 2 || old.Find("tenant/serving").Generation != 1 {
		t.Fatalf("read back: %+v, %v", old, err)
	}
	if _, err := s.Save(ctx, old, Change{Remove: []string{"class/gold"}}, "cid"); err == nil || !strings.Contains(err.Error(), "no such class") {
		t.Fatalf("a class that is needed is removed: %v", err)
	}
	if g, err := s.Save(ctx, old, Change{Remove: []string{"tenant/batch"}}, "cid"); err != nil || g != 3 {
		t.Fatalf("a removal: generation %d, %v", g, err)
	}
	all, err := s.History(ctx, "")
	if err != nil || len(all) != 6 {
		t.Fatalf("%d versions, %v, want 6", len(all), err)
	}
	batch, err := s.History(ctx, "tenant/batch")
	if err != nil || len(batch) != 3 || !batch[0].Removed || batch[0].Generation != 3 || batch[0].By != "cid" || batch[1].By != "bob" ||
		!strings.Contains(batch[1].Text, "/jobs/") || !strings.Contains(batch[2].Text, "/batch/") {
		t.Fatalf("the history of batch: %+v, %v", batch, err)
	}
}

// A change of any size is carried out whole, and can be read back.
func manyTenants(t *testing.T, s Store, n int) {
	var text strings.Builder
	text.WriteString("classes: {gold: {weight: 4}}\ntenants:\n")
	for i := range n {
		fmt.Fprintf(&text, "  - {id: t%d, class: gold, allow: [/t%d/], tokens: [{id: k%d, sha256: \"%s\"}]}\n", i, i, i, hash)
	}
	if _, err := s.Save(t.Context(), Book{}, Change{Set: split(t, text.String())}, "ann"); err != nil {
		t.Fatal(err)
	}
	b, err := s.Load(t.Context())
	if err != nil || len(b.Records) != n+1 {
		t.Fatalf("%d records, %v, want %d", len(b.Records), err, n+1)
	}
	if p := resolve(t, b); len(p.Set.Tenants) != n {
		t.Fatalf("%d tenants, want %d", len(p.Set.Tenants), n)
	}
	if _, err := s.Save(t.Context(), b, b.ChangeTo(nil, true), "ann"); err != nil {
		t.Fatal(err)
	}
	if b, err = s.Load(t.Context()); err != nil || len(b.Records) > 1 {
		t.Fatalf("%d records are left, %v", len(b.Records), err)
	}
}
