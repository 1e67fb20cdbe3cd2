package faults

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"testing"
	"time"
)

// TestResetsAndHalfCloses: clients reset the connection, or end their side of it, after
// a random number of bytes of the request and of the response. Whoever only ends its own
// side after a whole request gets all of the answer; nothing is left of the others.
func TestResetsAndHalfCloses(t *testing.T) {
	dir := tree(t)
	hot, small, big := object(t, dir, "hot", 8000), object(t, dir, "small", 9000), object(t, dir, "big", 3<<20)
	w := start(t, dir)
	for path, body := range map[string][]byte{"hot": hot, "small": small, "big": big} {
		w.want(path, body)
	}
	before := w.holdings()
	b := w.bystander("hot", hot)
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rnd := rand.New(rand.NewPCG(seed, 0))
	const clients = 1500
	whole := 0
	for i := range clients {
		path, body := "small", small
		if rnd.IntN(2) == 0 {
			path, body = "big", big
		}
		text := request(path)
		sent, read := rnd.IntN(len(text)+1), 0
		if rnd.IntN(3) > 0 {
			sent = len(text)
			read = rnd.IntN(len(body) + 100) // a head is longer than that
		}
		half := rnd.IntN(2) == 0
		err := func() error {
			c, err := w.connect()
			if err != nil {
				return err
			}
			defer c.close()
			if _, err := io.WriteString(c.conn, text[:sent]); err != nil {
				return err
			}
			if !half {
				_, _ = io.CopyN(io.Discard, c.conn, int64(read))
				return c.conn.SetLinger(0) // close resets
			}
			if err := c.conn.CloseWrite(); err != nil {
				return err
			}
			if sent < len(text) { // refused, or closed without an answer
				_, _ = io.Copy(io.Discard, c.conn)
				return nil
			}
			resp, err := c.head()
			if err != nil {
				return err
			}
			got, err := io.ReadAll(resp.Body)
			if err == nil && !bytes.Equal(got, body) {
				err = fmt.Errorf("%d bytes of %d", len(got), len(body))
			}
			whole++
			return err
		}()
		if err != nil {
			t.Errorf("client %d of seed %d (%d of %d bytes asked, half-closed: %v): %v", i, seed, sent, len(text), half, err)
		}
	}
	if whole < clients/6 {
		t.Errorf("only %d of %d were to get all", whole, clients)
	}
	w.wellAfter("RST and half-close at random bytes", func() {}, w.serves("big", big), b.end())
	w.givenBack(before)
}
