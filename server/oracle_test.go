package server

import (
	"fmt"
	"maps"
	"math/big"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

var oracleRange = regexp.MustCompile(`^(?i:bytes)=[ \t,]*(\d*)-(\d*)[ \t,]*$`)

// rangeOracle is RFC 9110 §14.1.2, §14.2 and our house rule in as few words as
// possible, with numbers that cannot overflow: what a GET with this Range header
// gets of an object of that size. whole is also the answer to anything that is not
// one valid range of bytes.
func rangeOracle(header string, size int64) (status int, from, to int64) {
	m := oracleRange.FindStringSubmatch(header)
	if m == nil || m[1] == "" && m[2] == "" {
		return 200, 0, size
	}
	num := func(s string) *big.Int { n, _ := new(big.Int).SetString(s, 10); return n }
	total := big.NewInt(size)
	if m[1] == "" { // the last so many
		n := num(m[2])
		if n.Sign() == 0 {
			return 416, 0, 0
		}
		if size == 0 { // satisfiable, but no Content-Range can say so: the whole
			return 200, 0, 0
		}
		if n.Cmp(total) > 0 {
			n = total
		}
		return 206, size - n.Int64(), size
	}
	first, last := num(m[1]), total
	if m[2] != "" {
		last = num(m[2])
		if first.Cmp(last) > 0 {
			return 200, 0, size
		}
		last = last.Add(last, big.NewInt(1))
	}
	if first.Cmp(total) >= 0 {
		return 416, 0, 0
	}
	if last.Cmp(total) > 0 {
		last = total
	}
	return 206, first.Int64(), last.Int64()
}

// randomRange writes a Range header, most often a useful one around the places
// where something could go wrong: the ends, chunk and copy boundaries.
func randomRange(rnd *rand.Rand, size int64) string {
	edge := func() int64 {
		edges := []int64{0, 1, size / 2, size - 1, size, size + 1, DefaultCopyBelow, 256 << 10, DefaultTransferChunk}
		return max(edges[rnd.IntN(len(edges))]+int64(rnd.IntN(5))-2, 0)
	}
	length := int64(1) << rnd.IntN(20)
	switch rnd.IntN(12) {
	case 0:
		return fmt.Sprintf("bytes=-%d", min(edge(), 1<<20))
	case 1:
		return fmt.Sprintf("bytes=%d-", max(size-length, 0))
	case 2:
		a := edge()
		return fmt.Sprintf("bytes=%d-%d", a, a+length)
	case 3:
		return []string{"bytes=", "bytes=5-2", "bytes=a-b", "items=0-1", "bytes=0-0,2-3", "bytes=-0", "bytes=--1",
			"bytes=18446744073709551616-", "bytes=-99999999999999999999", "bytes=0-18446744073709551615", "bytes 0-1", "BYTES=0-1", ","}[rnd.IntN(13)]
	}
	a := rnd.Int64N(size + 2)
	return fmt.Sprintf("bytes=%d-%d", a, a+rnd.Int64N(2*length))
}

// Every range over the socket is, byte for byte, what the oracle says, from
// objects of awkward sizes, in memory and on disk, on connections that go on.
// TALON_RANGES sets how many (100,000; 10,000 with -short or -race), TALON_SEED replays a run.
func TestRangesAgainstOracle(t *testing.T) {
	ranges, seed := 100_000, rand.Uint64()
	if testing.Short() || raceEnabled {
		ranges = 10_000
	}
	if s := os.Getenv("TALON_RANGES"); s != "" {
		ranges, _ = strconv.Atoi(s)
	}
	if s := os.Getenv("TALON_SEED"); s != "" {
		seed, _ = strconv.ParseUint(s, 10, 64)
	}
	t.Logf("replay: TALON_SEED=%d TALON_RANGES=%d go test -run TestRangesAgainstOracle ./server", seed, ranges)
	r := startRig(t, func(c *Config) { c.Rings = 2 })
	const chunk, copied = DefaultTransferChunk, DefaultCopyBelow
	objects := map[string][]byte{}
	for i, size := range []int{0, 1, copied - 1, copied, copied + 1, chunk - 1, chunk, chunk + 1, 3*chunk + 7, 64 << 20} {
		name := fmt.Sprint("o", size)
		objects[name] = pattern(size, byte(i))
		r.put(name, objects[name])
	}
	syncTree(t, r.dir)
	const clients = 8
	var group sync.WaitGroup
	for i := range clients {
		c, rnd := r.dial(), rand.New(rand.NewPCG(seed, uint64(i)))
		group.Go(func() { askRanges(t, r, c, rnd, objects, ranges/clients) })
	}
	group.Wait()
	if st := r.stats(); st.Prefetches == 0 || st.ProbeHits == 0 {
		t.Errorf("%d prefetches, %d probe hits: cold and warm objects were meant to be among them", st.Prefetches, st.ProbeHits)
	}
}

func askRanges(t *testing.T, r *rig, c *client, rnd *rand.Rand, objects map[string][]byte, n int) {
	names := slices.Sorted(maps.Keys(objects))
	for range n {
		name := names[rnd.IntN(len(names))]
		object := objects[name]
		header := randomRange(rnd, int64(len(object)))
		status, from, to := rangeOracle(header, int64(len(object)))
		if to-from > 4<<20 && rnd.IntN(100) > 0 {
			continue // the whole large object only now and then
		}
		if rnd.IntN(64) == 0 {
			evict(t, filepath.Join(r.dir, name))
		}
		c.conn.SetDeadline(time.Now().Add(waitLong))
		resp, body := c.get("/"+name, "Range: "+header)
		why := fmt.Sprintf("%q of %s", header, name)
		if resp.StatusCode != status {
			t.Errorf("%s: status %d, want %d", why, resp.StatusCode, status)
			return
		}
		switch status {
		case 416:
			if want := fmt.Sprintf("bytes */%d", len(object)); resp.Header.Get("Content-Range") != want {
				t.Errorf("%s: Content-Range %q, want %q", why, resp.Header.Get("Content-Range"), want)
			}
			continue
		case 206:
			if want := fmt.Sprintf("bytes %d-%d/%d", from, to-1, len(object)); resp.Header.Get("Content-Range") != want {
				t.Errorf("%s: Content-Range %q, want %q", why, resp.Header.Get("Content-Range"), want)
			}
		}
		if string(body) != string(object[from:to]) {
			wantBody(t, why, body, object[from:to])
			return
		}
	}
}

// evict drops a file's pages from memory, as far as they are on disk: syncTree.
func evict(t *testing.T, path string) {
	f, err := os.Open(path)
	if err != nil {
		t.Error(err)
		return
	}
	defer f.Close()
	if err := unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED); err != nil {
		t.Error(err)
	}
}

// syncTree writes a tree to disk, so that its pages can be dropped.
func syncTree(t *testing.T, dir string) {
	f, err := os.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := unix.Syncfs(int(f.Fd())); err != nil {
		t.Fatal(err)
	}
}

func TestRangeOracleKnowsItsRFC(t *testing.T) {
	for _, tt := range []struct {
		header string
		want   string
	}{
		{"bytes=0-0", "206 0-1"}, {"bytes=9-9", "206 9-10"}, {"bytes=9-", "206 9-10"}, {"bytes=10-", "416 0-0"},
		{"bytes=-0", "416 0-0"}, {"bytes=-1", "206 9-10"}, {"bytes=5-2", "200 0-10"}, {"bytes=a-b", "200 0-10"},
		{"bytes=-99999999999999999999", "206 0-10"}, {"bytes=0-18446744073709551615", "206 0-10"},
		{"bytes=18446744073709551615-", "416 0-0"}, {"bytes=0-1,3-4", "200 0-10"}, {"items=0-1", "200 0-10"},
	} {
		status, from, to := rangeOracle(tt.header, 10)
		if got := fmt.Sprintf("%d %d-%d", status, from, to); got != tt.want {
			t.Errorf("%s: %s, want %s", tt.header, got, tt.want)
		}
	}
	if !strings.HasPrefix(randomRange(rand.New(rand.NewPCG(1, 1)), 100), "bytes=") {
		t.Error("the generator starts with something useful")
	}
}
