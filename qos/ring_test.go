package qos

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func workers(n int) []WorkerID {
	ids := make([]WorkerID, n)
	for i := range ids {
		ids[i] = WorkerID(fmt.Sprintf("worker-%d", i))
	}
	return ids
}

// letters names a worker by each letter of a word; spell is the inverse.
func letters(word string) []WorkerID {
	var ids []WorkerID
	for _, c := range word {
		ids = append(ids, WorkerID(c))
	}
	return ids
}

func spell(ids []WorkerID) string {
	word := ""
	for _, id := range ids {
		word += string(id)
	}
	return word
}

func ringOf(t testing.TB, epoch uint64, ids []WorkerID, replaces ...Voting) *Ring {
	t.Helper()
	r, err := NewRing(epoch, ids, replaces...)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// The placements below are the protocol: two releases that disagree about one of them would give one limit two owners. Never edit
// them to make the test pass.
func TestPlacementsNeverChange(t *testing.T) {
	r := ringOf(t, 1, workers(10))
	for _, tc := range []struct {
		tenant string
		metric Metric
		place  Place
		owner  WorkerID
	}{} {
		p := PlaceOf(Limit{tc.tenant, tc.metric})
		if p != tc.place || r.Members()[r.Owner(p)] != tc.owner {
			t.Errorf("{%q, %v, %#x, %q},", tc.tenant, tc.metric, uint64(p), r.Members()[r.Owner(p)])
		}
	}
}

// No worker owns more than 1.1 times its share, for every size from 3 to 1,000. Keys are drawn until chance alone gives less
// than that: 2,000 for each worker.
func TestNoWorkerOwnsMuchMoreThanItsShare(t *testing.T) {
	for _, name := range []string{"worker-%d", "10.1.0.%d:7400"} {
		for _, n := range []int{3, 4, 5, 7, 10, 17, 32, 100, 316, 1000} {
			if n > 100 && name != "worker-%d" {
				continue // half a minute for nothing new
			}
			ids := make([]WorkerID, n)
			for i := range ids {
				ids[i] = WorkerID(fmt.Sprintf(name, i))
			}
			if ratio := imbalance(ringOf(t, 1, ids), max(2000*n, 30_000)); ratio > 1.1 {
				t.Errorf("%d workers like %s: max/mean %.3f", n, name, ratio)
			}
		}
	}
}

func imbalance(r *Ring, keys int) float64 {
	owned := make([]int, len(r.Members()))
	for k := range keys {
		owned[r.Owner(PlaceOf(Limit{fmt.Sprint("tenant-", k), ReadIOPS}))]++
	}
	return float64(slices.Max(owned)) * float64(len(owned)) / float64(keys)
}

func TestAJoinMovesKeysOnlyToTheNewcomer(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 40).Draw(t, "workers")
		ids := workers(n + 1)
		newcomer := rapid.IntRange(0, n).Draw(t, "newcomer")
		without := append(append([]WorkerID{}, ids[:newcomer]...), ids[newcomer+1:]...)
		old, err1 := NewRing(1, without)
		all, err2 := NewRing(2, ids)
		if err1 != nil || err2 != nil {
			t.Fatal(err1, err2)
		}
		moved, keys := 0, 2000
		for k := range keys {
			p := PlaceOf(Limit{fmt.Sprint("tenant-", k), OriginReadBytes})
			from, to := old.Members()[old.Owner(p)], all.Members()[all.Owner(p)]
			if from == to {
				continue
			}
			moved++
			if to != ids[newcomer] { // read the other way this is a leave: only the leaver's keys move
				t.Fatalf("key %d moved from %s to %s, and neither is new", k, from, to)
			}
		}
		if mean := keys / (n + 1); moved > 2*mean+60 {
			t.Fatalf("%d of %d keys moved", moved, keys)
		}
	})
}

func TestRingRefusesWhatItCannotPlace(t *testing.T) {
	two := []Voting{{Epoch: 4, Voters: letters("a")}, {Epoch: 3, Voters: letters("a")}}
	for _, tc := range []struct {
		name     string
		epoch    uint64
		ids      []WorkerID
		replaces []Voting
		want     error
	}{
		{"no epoch", 0, workers(3), nil, ErrRingEpoch},
		{"no members", 1, nil, nil, ErrRingSize},
		{"too many", 1, make([]WorkerID, MaxMembers+1), nil, ErrRingSize},
		{"an empty id", 1, []WorkerID{"a", ""}, nil, ErrRingMember},
		{"an endless id", 1, []WorkerID{WorkerID(strings.Repeat("a", 256))}, nil, ErrRingMember},
		{"one id twice", 1, letters("aba"), nil, ErrRingMember},
		{"replaces itself", 4, letters("a"), two, ErrRingEpoch},
		{"replaces in disorder", 5, letters("a"), []Voting{two[1], two[0]}, ErrRingEpoch},
		{"replaces nobody's ring", 5, letters("a"), []Voting{{Epoch: 4}}, ErrRingReplaces},
		{"replaces too many", 500, letters("a"), make([]Voting, MaxReplaced+1), ErrRingReplaces},
		{"in order", 5, letters("ba"), two, nil},
	} {
		if _, err := NewRing(tc.epoch, tc.ids, tc.replaces...); !errors.Is(err, tc.want) {
			t.Errorf("%s: %v, want %v", tc.name, err, tc.want)
		}
	}
}

func TestVotersAreTheFirstSevenById(t *testing.T) {
	r := ringOf(t, 1, letters("ihgfedcba"))
	if got := spell(r.Voters()); got != "abcdefg" {
		t.Errorf("voters %q", got)
	}
	if got := ringOf(t, 1, letters("ba")).Voters(); len(got) != 2 {
		t.Errorf("voters %q", got)
	}
	if r.Index("c") != 2 || r.Index("z") != -1 {
		t.Error("index does not find members by id")
	}
}

func TestLookingUpAnOwnerAllocatesNothing(t *testing.T) {
	r := ringOf(t, 1, workers(100))
	if n := testing.AllocsPerRun(100, func() { r.Owner(12345) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkRingOwner(b *testing.B) {
	for _, n := range []int{10, 100, 1000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			r := ringOf(b, 1, workers(n))
			for i := 0; b.Loop(); i++ {
				r.Owner(Place(i))
			}
		})
	}
}
