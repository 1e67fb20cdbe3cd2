package server

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// lines is a sink that can be stopped.
type lines struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *lines) read(t *testing.T) (all []map[string]any) {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	for s := bufio.NewScanner(&l.text); s.Scan(); {
		line := map[string]any{}
		if err := json.Unmarshal(s.Bytes(), &line); err != nil {
			t.Fatalf("%v: %s", err, s.Bytes())
		}
		all = append(all, line)
	}
	return all
}

// What a line says, of what is served, refused, waited for, and not known.
func TestAccessLog(t *testing.T) {
	policies := limited("a", 2, 1, 0, 0)
	s := tellOf(t, []Tenant{{ID: "a", Generation: 5, QueueDeadline: 1200 * time.Millisecond}}, policies, func(c *Config) { c.AccessLog, c.AccessSample = &lines{}, 1 })
	clients := s.asks(4, "/o700", "a")
	s.pass(3 * time.Second)
	c := s.client()
	c.say("GET /%22%3c%0aX HTTP/1.1\r\nHost: h\r\n\r\n" + getRequest("/o1", "Authorization: Basic x"))
	s.settle()
	if got := answers(clients); got["200"] != 3 || got["429"] != 1 {
		t.Fatalf("answers %v", got)
	}
	sink := &lines{}
	drainAccess([]*loop{s.loop}, sink, nil)
	all := sink.read(t)
	if len(all) != 6 {
		t.Fatalf("%d lines, want 6: %v", len(all), all)
	}
	said := map[string]int{}
	waited := 0.0
	for _, line := range all {
		said[fmt.Sprint(line["status"], " ", line["decision"], " ", line["limit"], " ", line["tenant"], " ", line["method"], " ", line["key"], " ", line["bytes"], " ", line["policy_generation"])]++
		waited = max(waited, line["queue_ms"].(float64))
		if line["duration_ms"].(float64) < line["queue_ms"].(float64) || len(line["request_id"].(string)) != 16 {
			t.Errorf("%v", line)
		}
		if _, err := time.Parse(time.RFC3339Nano, line["time"].(string)); err != nil {
			t.Error(err)
		}
	}
	want := map[string]int{"200 go <nil> a GET o700 700 5": 3, "429 exhausted read_iops a GET <nil> 0 1": 1, "401 denied <nil>  GET <nil> 0 0": 2}
	if fmt.Sprint(said) != fmt.Sprint(want) {
		t.Errorf("the log says\n%v, want\n%v", said, want)
	}
	if waited < 900 || waited > 1300 {
		t.Errorf("the longest queue_ms is %v: a second was waited for the last that was served, 1.2 for the one that was not", waited)
	}
}

// Of what is served a sample is logged; nobody waits for a log that is not written.
func TestAccessLogSamplesAndDrops(t *testing.T) {
	s := tell(t, unix.AF_UNIX, func(c *Config) { c.AccessLog, c.AccessSample = &lines{}, 10 })
	c := s.client()
	ask := func(n int, request string) {
		for range n / 10 {
			c.say(strings.Repeat(request, 10))
			s.turns(60, 1e5)
			c.hear()
			c.got = nil
		}
	}
	ask(200, getRequest("/o1"))
	if n := s.loop.access.tail.Load(); n != 20 {
		t.Errorf("%d lines for 200 that were served, one in 10", n)
	}
	const refused = "PUT /x HTTP/1.1\r\nHost: h\r\n\r\n"
	ask(accessRecords+50, refused)
	if n, dropped := s.loop.access.tail.Load(), s.loop.access.dropped.Load(); n != accessRecords || dropped < 60 {
		t.Errorf("%d lines wait in a buffer of %d, %d were dropped", n, accessRecords, dropped)
	}
	drainAccess([]*loop{s.loop}, &lines{}, nil)
	ask(10, refused)
	if n := s.loop.access.tail.Load(); n != accessRecords+10 {
		t.Errorf("%d lines after the buffer was emptied", n)
	}
}

// Whatever bytes a key has, its line is JSON.
func TestAccessLogOfAnyKey(t *testing.T) {
	r := accessRecord{tenant: "a", status: 200}
	for b := range 256 {
		r.keyLen = uint8(copy(r.key[:], []byte{'x', byte(b), '"', '\\', 0xff, byte(b)}))
		var line struct{ Key string }
		if err := json.Unmarshal(r.appendJSON(nil), &line); err != nil || !strings.HasPrefix(line.Key, "x") {
			t.Errorf("byte %#x: %v: %q", b, err, line.Key)
		}
	}
}

// The server writes it by itself, the last lines when it ends.
func TestAccessLogIsWritten(t *testing.T) {
	sink := &lines{}
	r := startRig(t, func(c *Config) { c.AccessLog, c.AccessSample, c.Rings = sink, 1, 2 })
	r.put("x", []byte("x"))
	for range 20 {
		r.dial().get("/x")
	}
	r.s.Drain(0)
	if err := <-r.ran; err != nil {
		t.Fatal(err)
	}
	r.ran <- nil
	if n := len(sink.read(t)); n != 20 {
		t.Errorf("%d lines for 20 responses", n)
	}
}
