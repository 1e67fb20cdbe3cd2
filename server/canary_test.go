package server

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"
)

// canaryTenants is how many tenants TestNoForeignByte has; each has a folder of its own, full of bytes that are its own.
const canaryTenants = 64

// canaries are the objects of tenant i: what goes out by a copy, by a copy of the largest size, and by sendfile in several turns.
var canarySizes = []int{1, 700, DefaultCopyBelow, DefaultCopyBelow + 1, 300_000}

func canary(i, size int) []byte {
	return bytes.Repeat(fmt.Appendf(nil, "|tenant %02d|", i), size/11+1)[:size]
}

// Many tenants over shared keep-alive connections, each request another's, on rings that keep few files open and whose clients reset
// connections in mid-response: nobody ever sees a byte, a length or a right that is another's. TALON_CANARIES sets how many responses (10,000), TALON_SEED
// replays what the clients do.
func TestNoForeignByte(t *testing.T) {
	responses, seed := 10_000, rand.Uint64()
	if testing.Short() || raceEnabled {
		responses = 2000
	}
	if s := os.Getenv("TALON_CANARIES"); s != "" {
		responses, _ = strconv.Atoi(s)
	}
	if s := os.Getenv("TALON_SEED"); s != "" {
		seed, _ = strconv.ParseUint(s, 10, 64)
	}
	t.Logf("replay: TALON_SEED=%d TALON_CANARIES=%d go test -run TestNoForeignByte ./server", seed, responses)
	var tenants []Tenant
	for i := range canaryTenants {
		id := fmt.Sprintf("t%02d", i)
		tenants = append(tenants, Tenant{ID: id, Weight: 1 + i%7, Allow: []string{"/" + id + "/"}, Tokens: []Token{tokenOf(id)}})
	}
	r := startRig(t, func(c *Config) {
		c.Tenants, c.Rings, c.OpenFiles, c.MaxConnections = must(NewTenants(patient(tenants))), 2, 40, 64
		c.EgressRate, c.OpenFileValid = 2e9, 20*time.Millisecond
	})
	objects := make([][][]byte, canaryTenants)
	for i := range objects {
		for _, size := range canarySizes {
			objects[i] = append(objects[i], canary(i, size))
			r.put(fmt.Sprintf("t%02d/o%d", i, size), canary(i, size))
		}
	}
	syncTree(t, r.dir)
	const clients = 12
	var group sync.WaitGroup
	for n := range clients {
		rnd := rand.New(rand.NewPCG(seed, uint64(n)))
		group.Go(func() {
			c := r.dial()
			for range responses / clients {
				c.conn.SetDeadline(time.Now().Add(waitLong))
				i, k := rnd.IntN(canaryTenants), rnd.IntN(len(canarySizes))
				path, want := fmt.Sprintf("/t%02d/o%d", i, canarySizes[k]), objects[i][k]
				as := i
				if rnd.IntN(10) == 0 {
					as = rnd.IntN(canaryTenants)
				}
				if rnd.IntN(100) == 0 {
					evict(t, filepath.Join(r.dir, path))
				}
				c.send(getRequest(path, bearer(fmt.Sprintf("t%02d", as))))
				if rnd.IntN(50) == 0 { // gone in mid-response
					c.r.Peek(1)
					c.conn.SetLinger(0)
					c.conn.Close()
					c = r.dial()
					continue
				}
				if err := c.wantOwn(want, as == i); err != nil {
					t.Errorf("%s as t%02d: %v", path, as, err)
					return
				}
			}
		})
	}
	group.Wait()
	if st := r.stats(); st.FilesMissed < 100 || st.Closed[ClosedReset] == 0 || st.SentSendfile == 0 || st.SentCopy == 0 {
		t.Errorf("%d lookups, %d resets, %d bytes by sendfile, %d by copy: the test is not what it says", st.FilesMissed, st.Closed[ClosedReset], st.SentSendfile, st.SentCopy)
	}
}

// wantOwn reads a response: the tenant's own object, or a refusal if it is not its own. A worker that is short of descriptors may say so.
func (c *client) wantOwn(object []byte, own bool) error {
	resp, err := http.ReadResponse(c.r, nil)
	if err != nil {
		return err
	}
	body, err := io.ReadAll(resp.Body)
	switch {
	case err != nil:
		return err
	case resp.StatusCode == 503 && own:
		return nil
	case !own && resp.StatusCode != 403, own && resp.StatusCode != 200:
		return fmt.Errorf("status %d", resp.StatusCode)
	case own && !bytes.Equal(body, object):
		return fmt.Errorf("%d bytes that are not its own: %.60q", len(body), body)
	case bytes.Contains(body, []byte("|tenant")) && !own:
		return fmt.Errorf("a refusal with an object's bytes: %.60q", body)
	}
	return nil
}
