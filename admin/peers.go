package admin

import (
	"maps"
	"net/http"
	"slices"
	"time"
)

// Peers is this worker's place among those that share its limits.
type Peers struct {
	Worker      string   `json:"worker"`
	Epoch       uint64   `json:"epoch"` // of this incarnation
	Coordinator string   `json:"coordinator"`
	Trouble     string   `json:"coordinator_error,omitempty"` // why what it says now is not in force
	Away        bool     `json:"coordinator_away"`            // because it does not answer
	Enlisted    bool     `json:"enlisted"`                    // the coordinator knows of this incarnation; false while it has begun without its answer
	Ring        uint64   `json:"ring_epoch"`
	Members     []string `json:"members"`
	Acts        bool     `json:"acts"`    // may act as an owner: a majority of the ring's voters has confirmed, or would if it asked them
	Settled     bool     `json:"settled"` // the rings before this one are over
	Peers       []Peer   `json:"peers"`
	Wire        Wire     `json:"wire"`
}

// Peer is one other worker.
type Peer struct {
	ID        string     `json:"id"`
	Addr      string     `json:"addr,omitempty"` // that is dialed; none for one that only calls
	Connected bool       `json:"connected"`
	Dialed    bool       `json:"dialed"` // by this worker
	Epoch     uint64     `json:"epoch,omitempty"`
	Ring      uint64     `json:"ring_epoch,omitempty"` // that it had when it connected
	Since     *time.Time `json:"since,omitempty"`
	FramesIn  uint64     `json:"frames_in"` // on this connection
	FramesOut uint64     `json:"frames_out"`
	BytesIn   uint64     `json:"bytes_in"`
	BytesOut  uint64     `json:"bytes_out"`
	Fault     string     `json:"fault,omitempty"` // why it cannot be reached
}

// Wire counts what the peer port did since start.
type Wire struct {
	FramesIn  uint64            `json:"frames_in"`
	FramesOut uint64            `json:"frames_out"`
	BytesIn   uint64            `json:"bytes_in"`
	BytesOut  uint64            `json:"bytes_out"`
	Merged    uint64            `json:"merged"` // messages that took the place of one not sent yet
	Paced     uint64            `json:"paced"`  // connections that waited because others had come right before them
	Rested    uint64            `json:"rested"` // times that a connection was not read for a while, because too many frames had come
	Links     map[string]uint64 `json:"links"`  // connections by what became of them
	Lost      map[string]uint64 `json:"lost"`   // messages by why they did not go
}

// Key is a limit that this worker meters for all.
type Key struct {
	Tenant     string `json:"tenant"`
	Metric     string `json:"metric"`
	Generation uint64 `json:"generation"`
	Level      int64  `json:"level"` // negative is debt
	Burst      int64  `json:"burst"`
	Reserved   int64  `json:"reserved"`
	Expired    int64  `json:"expired"` // of it, with workers that have been silent for longer than a snapshot lives
	Reporters  int    `json:"reporters"`
	Waiting    int    `json:"waiting"`
	Used       int64  `json:"used"`
	Wanted     int64  `json:"wanted"`
	Excess     int64  `json:"excess"` // the most that reported use was ahead of an ideal bucket
	Bound      int64  `json:"bound"`  // of it: members x local burst + rate x snapshot TTL
}

// peers answers /api/v1/peers.
func (wk Worker) peers(w http.ResponseWriter, _ *http.Request) {
	p := wk.Peers()
	if p.Peers == nil {
		p.Peers = []Peer{}
	}
	writeJSON(w, p)
}

// keys answers /api/v1/keys.
func (wk Worker) keys(w http.ResponseWriter, _ *http.Request) {
	k := wk.Keys()
	if k == nil {
		k = []Key{}
	}
	writeJSON(w, struct {
		Keys []Key `json:"keys"`
	}{k})
}

// writePeers writes the families of the peer port. There is no series for each peer: a cluster may have thousands.
func (t *Tenancy) writePeers(e *exposition) {
	if t.Limiter != nil {
		worst := 0.0
		for _, k := range t.Keys {
			if k.Bound > 0 {
				worst = max(worst, float64(k.Excess)/float64(k.Bound))
			}
		}
		e.family("talon_global_excess_of_bound", "gauge", "Of the limits metered here, the most that reported use was ahead of an ideal bucket, as a share of members x local burst + rate x TTL.")
		e.sample("talon_global_excess_of_bound", worst)
	}
	if t.Peers == nil {
		return
	}
	p := t.Peers
	connected := 0
	for i := range p.Peers {
		if p.Peers[i].Connected {
			connected++
		}
	}
	for _, f := range []struct {
		name, help string
		value      float64
	}{
		{"talon_peers", "Other workers that are known.", float64(len(p.Peers))},
		{"talon_peers_connected", "Of these, how many there is a connection with.", float64(connected)},
		{"talon_coordinator_up", "0 while the coordinator does not answer, or its file cannot be read; what it said last stays in force.", boolean(!p.Away)},
		{"talon_coordinator_enlisted", "0 while this worker, which has begun with the policy and the ring on its disk, is not known to the coordinator.", boolean(p.Enlisted)},
		{"talon_coordinator_trouble", "1 while what the coordinator says is not what is in force; /api/v1/peers says why.", boolean(p.Trouble != "")},
		{"talon_global_settled", "1 while no earlier ring can have owners that act.", boolean(p.Settled)},
	} {
		e.family(f.name, "gauge", f.help)
		e.sample(f.name, f.value)
	}
	pair := func(name, help string, in, out uint64) {
		e.family(name, "counter", help)
		e.sample(name, float64(in), "direction", "in")
		e.sample(name, float64(out), "direction", "out")
	}
	pair("talon_peer_bytes_total", "Bytes of frames between workers.", p.Wire.BytesIn, p.Wire.BytesOut)
	pair("talon_peer_frames_total", "Frames between workers.", p.Wire.FramesIn, p.Wire.FramesOut)
	e.family("talon_peer_merged_total", "counter", "Messages that took the place of one not sent yet: the peer reads slowly.")
	e.sample("talon_peer_merged_total", float64(p.Wire.Merged))
	e.family("talon_peer_accepts_paced_total", "counter", "Connections to the peer port that waited because others had come right before them: somebody floods it.")
	e.sample("talon_peer_accepts_paced_total", float64(p.Wire.Paced))
	e.family("talon_peer_reads_paced_total", "counter", "Times that a peer's connection was not read for a while because it had sent more frames than one in order can.")
	e.sample("talon_peer_reads_paced_total", float64(p.Wire.Rested))
	by := func(name, help, label string, values map[string]uint64) {
		e.family(name, "counter", help)
		for _, of := range slices.Sorted(maps.Keys(values)) {
			e.sample(name, float64(values[of]), label, of)
		}
	}
	by("talon_peer_links_total", "Connections of the peer port, by what became of them.", "outcome", p.Wire.Links)
	by("talon_peer_messages_lost_total", "Messages that did not go, by why.", "reason", p.Wire.Lost)
}
