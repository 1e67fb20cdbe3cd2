package load

import (
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
)

// Bounds of one run. Reaching one is an error of Config.Validate.
const (
	MaxKeys    = 100_000 // sizes are asked for by HEAD before the run, a thousand keys take about 0.1 s
	MaxConns   = 20_000  // a loopback address has about 28,000 ephemeral ports
	MaxStreams = 16
	MaxSeconds = 3600
	MaxSlices  = 100_000
	MaxRetries = 100
	maxOwed    = 10_000 // requests of one thread's stream that wait to be sent again; more are given up
)

// Config describes one run. Times are in seconds so that the JSON form reads as it is written.
type Config struct {
	Target  string   `json:"target"`            // http://host:port, no path
	Streams []Stream `json:"streams"`           // at least one; all share the same threads
	Headers []string `json:"headers,omitempty"` // "Name: value", sent with every request

	WarmupS   float64 `json:"warmup_s"`   // before the measured window, not reported
	DurationS float64 `json:"duration_s"` // length of the measured window
	TimeoutS  float64 `json:"timeout_s"`  // a request that takes longer is an error; 0 means 10

	CPUs    []int  `json:"cpus,omitempty"`    // one thread pinned to each; empty: Threads unpinned ones
	Threads int    `json:"threads,omitempty"` // only without CPUs; 0 means 1
	Block   bool   `json:"block,omitempty"`   // sleep in epoll_wait instead of polling
	Copy    bool   `json:"copy,omitempty"`    // copy bodies to user space instead of discarding them
	Hygiene bool   `json:"hygiene,omitempty"` // raise the threads and the autogroup, see Raise
	Seed    uint64 `json:"seed,omitempty"`    // for random keys and ranges

	// SliceS cuts the window into slices of so many seconds, whose bytes StreamResult.Slices has; 0 does not.
	SliceS float64 `json:"slice_s,omitempty"`

	// UntilStopped lets whoever does not know beforehand how long a run takes end it: stopped in the measured window, it has a result of what
	// was measured until then. Else a run that is stopped has none.
	UntilStopped bool `json:"until_stopped,omitempty"`

	// ServerPIDs are processes whose CPU time is read at both edges of the window.
	ServerPIDs []int `json:"server_pids,omitempty"`
}

// Stream is a set of connections that ask for the same kind of thing and are reported together.
type Stream struct {
	Name  string   `json:"name"`
	Conns int      `json:"conns"`
	Keys  []string `json:"keys"`            // absolute paths, already escaped
	Order string   `json:"order,omitempty"` // "rr" (default): each connection walks the list; "random"
	Range Range    `json:"range"`
	Rate  float64  `json:"rate,omitempty"` // requests per second; 0 is the closed loop

	// From CalmS seconds of the window on the open loop's rate is CalmRate; what is behind by then is forgotten.
	CalmS    float64 `json:"calm_s,omitempty"`
	CalmRate float64 `json:"calm_rate,omitempty"`

	Headers []string `json:"headers,omitempty"` // beside Config.Headers; a tenant's credentials, for example

	// Refusals are statuses that the stream expects beside the good one, such as 429. They are counted
	// and timed apart, and are no errors.
	Refusals []int `json:"refusals,omitempty"`
	// Retries is how often a request of an open loop that was refused, or lost with its connection, is
	// sent again at once. Its latency counts from when it was first due.
	Retries int `json:"retries,omitempty"`
	// Detector is the failure detector of an open loop's client; nil has none.
	Detector *Detector `json:"detector,omitempty"`
}

// Range says which bytes a request asks for. The zero value asks for the whole object.
type Range struct {
	Kind   string `json:"kind,omitempty"` // "", "fixed" or "random"
	First  int64  `json:"first,omitempty"`
	Length int64  `json:"length,omitempty"` // bytes
	Align  int64  `json:"align,omitempty"`  // random offsets are multiples of it; 0 means 1
}

// Validate fills defaults and says in one line what is wrong and how to mend it.
func (c *Config) Validate() error {
	if _, err := c.host(); err != nil {
		return err
	}
	if len(c.Streams) == 0 || len(c.Streams) > MaxStreams {
		return fmt.Errorf("streams: %d given, want 1 to %d", len(c.Streams), MaxStreams)
	}
	if c.DurationS <= 0 || c.DurationS > MaxSeconds || c.WarmupS < 0 || c.WarmupS > MaxSeconds {
		return fmt.Errorf("duration %gs, warm-up %gs: want 0 < duration <= %d and 0 <= warm-up <= %d",
			c.DurationS, c.WarmupS, MaxSeconds, MaxSeconds)
	}
	if c.TimeoutS == 0 {
		c.TimeoutS = 10
	}
	if c.TimeoutS < 0 {
		return fmt.Errorf("timeout %gs: want more than 0", c.TimeoutS)
	}
	if len(c.CPUs) > 0 {
		c.Threads = len(c.CPUs)
	}
	if c.Threads == 0 {
		c.Threads = 1
	}
	if c.Threads < 0 || c.Threads > 1024 {
		return fmt.Errorf("threads %d: want 1 to 1024", c.Threads)
	}
	if c.SliceS < 0 || c.SliceS > 0 && c.DurationS/c.SliceS > MaxSlices {
		return fmt.Errorf("slices of %gs: want 0 (none), or at most %d of them in %gs", c.SliceS, MaxSlices, c.DurationS)
	}
	if err := validateHeaders(c.Headers); err != nil {
		return err
	}
	return c.validateStreams()
}

func validateHeaders(headers []string) error {
	for _, h := range headers {
		if name, _, ok := strings.Cut(h, ":"); !ok || name == "" || strings.ContainsAny(h, "\r\n") {
			return fmt.Errorf("header %q: want \"Name: value\" on one line", h)
		}
	}
	return nil
}

func (c *Config) validateStreams() error {
	conns := 0
	for i := range c.Streams {
		s := &c.Streams[i]
		if s.Name == "" {
			s.Name = fmt.Sprintf("stream%d", i)
		}
		if err := s.validate(c.Threads); err != nil {
			return fmt.Errorf("stream %s: %w", s.Name, err)
		}
		conns += s.Conns
	}
	if conns > MaxConns {
		return fmt.Errorf("connections: %d in all, at most %d", conns, MaxConns)
	}
	return nil
}

func (s *Stream) validate(threads int) error {
	if s.Conns < threads {
		return fmt.Errorf("%d connections for %d threads: give each thread at least one", s.Conns, threads)
	}
	if len(s.Keys) == 0 || len(s.Keys) > MaxKeys {
		return fmt.Errorf("%d keys, want 1 to %d", len(s.Keys), MaxKeys)
	}
	for _, k := range s.Keys {
		if !strings.HasPrefix(k, "/") || strings.ContainsAny(k, " \r\n") {
			return fmt.Errorf("key %q: want an absolute, escaped path such as /dir/object", k)
		}
	}
	if s.Order == "" {
		s.Order = "rr"
	}
	if !slices.Contains([]string{"rr", "random"}, s.Order) {
		return fmt.Errorf("order %q: want rr or random", s.Order)
	}
	if s.Rate < 0 || s.Rate > 1e8 {
		return fmt.Errorf("rate %g: want 0 (closed loop) to 1e8 requests/s", s.Rate)
	}
	for _, code := range s.Refusals {
		if code < 400 || code > 599 {
			return fmt.Errorf("refusal %d: want a status from 400 to 599", code)
		}
	}
	if s.Retries < 0 || s.Retries > MaxRetries {
		return fmt.Errorf("retries %d: want 0 to %d", s.Retries, MaxRetries)
	}
	if s.Rate == 0 && (s.Retries > 0 || s.Detector != nil || s.CalmS != 0) {
		return errors.New("retries, a detector and a calm are for the open loop; give a rate")
	}
	if s.CalmS < 0 || s.CalmS > 0 && (s.CalmRate <= 0 || s.CalmRate > 1e8) {
		return fmt.Errorf("calm after %gs at %g/s: want a positive time and a rate up to 1e8", s.CalmS, s.CalmRate)
	}
	if err := validateHeaders(s.Headers); err != nil {
		return err
	}
	if err := s.Detector.validate(); err != nil {
		return err
	}
	return s.Range.validate()
}

func (r *Range) validate() error {
	if r.Align == 0 {
		r.Align = 1
	}
	switch {
	case r.Kind == "":
		return nil
	case r.Kind != "fixed" && r.Kind != "random":
		return fmt.Errorf("range kind %q: want fixed or random", r.Kind)
	case r.Length <= 0 || r.First < 0 || r.Align < 0:
		return fmt.Errorf("range first=%d length=%d align=%d: want first >= 0, length and align > 0", r.First, r.Length, r.Align)
	}
	return nil
}

// slices is how many whole slices fit into the window.
func (c *Config) slices() int {
	if c.SliceS == 0 {
		return 0
	}
	return int(c.DurationS/c.SliceS + 1e-9)
}

// host returns host:port of the target.
func (c *Config) host() (string, error) {
	u, err := url.Parse(c.Target)
	if err != nil {
		return "", fmt.Errorf("target: %w", err)
	}
	if u.Scheme != "http" || u.Host == "" || (u.Path != "" && u.Path != "/") {
		return "", fmt.Errorf("target %q: want http://host:port without a path", c.Target)
	}
	if u.Port() == "" {
		return u.Hostname() + ":80", nil
	}
	return u.Host, nil
}

// ErrNoResponse is the cause when a run ended without a single good response.
var ErrNoResponse = errors.New("no response in the measured window")

func trimSlash(s string) string { return strings.TrimSuffix(s, "/") }

func splitHeader(h string) (name, value string) {
	name, value, _ = strings.Cut(h, ":")
	return strings.TrimSpace(name), strings.TrimSpace(value)
}
