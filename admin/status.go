package admin

import (
	"net/http"
	"time"
)

// status is the body of /api/v1/status. Fields may be added; none is renamed.
type status struct {
	Build
	Addr     string    `json:"addr"`
	Origin   string    `json:"origin"`
	Tenants  Tenants   `json:"tenants"`
	Policy   *Policy   `json:"policy,omitempty"` // without one: none
	Started  time.Time `json:"started"`
	Uptime   float64   `json:"uptime_seconds"`
	Draining bool      `json:"draining"`
	Shared
	Rings []Ring `json:"rings"`
	Error string `json:"error,omitempty"` // why rings is empty
}

func (wk Worker) statusAt(now time.Time) status {
	s := status{
		Build: wk.Build, Addr: wk.Addr, Origin: wk.Origin, Tenants: wk.Tenants(),
		Started: wk.Started.UTC(), Uptime: now.Sub(wk.Started).Seconds(),
		Draining: wk.Draining(), Shared: wk.Shared(), Rings: []Ring{},
	}
	if wk.Policy != nil {
		p := wk.Policy()
		s.Policy = &p
	}
	rings, err := wk.Rings()
	if err != nil {
		s.Error = err.Error()
		return s
	}
	s.Rings = rings
	return s
}

func (wk Worker) status(w http.ResponseWriter, _ *http.Request) {
	writeJSON(w, wk.statusAt(time.Now()))
}
