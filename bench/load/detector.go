package load

import "fmt"

// Detector is a client's failure detector by success ratio, as Voldemort's ThresholdFailureDetector: when less
// than Threshold of the requests in one interval succeed, the server is taken for down and nothing is sent to it
// but one probe per RecoverS; the first that succeeds ends that.
//
// A lost connection and a status from 500 on are failures. A 4xx is the application's answer, of a server that is up.
type Detector struct {
	Threshold float64 `json:"threshold"`  // 0 to 1
	Least     int     `json:"least"`      // requests in an interval before they are judged
	IntervalS float64 `json:"interval_s"` // over which the ratio is taken
	RecoverS  float64 `json:"recover_s"`  // from going down to the first probe, and between probes
}

func (d *Detector) validate() error {
	switch {
	case d == nil:
		return nil
	case d.Threshold <= 0 || d.Threshold > 1:
		return fmt.Errorf("detector: threshold %g: want more than 0, at most 1", d.Threshold)
	case d.Least < 1:
		return fmt.Errorf("detector: least %d: want at least 1", d.Least)
	case d.IntervalS <= 0 || d.RecoverS <= 0:
		return fmt.Errorf("detector: interval %gs, recovery %gs: want more than 0", d.IntervalS, d.RecoverS)
	}
	return nil
}

// judge is a Detector at work. It has no clock.
type judge struct {
	cfg     Detector
	since   int64 // start of the running interval
	good    int
	all     int
	down    bool
	probeAt int64 // while down: when the next probe may go
}

func newJudge(d Detector) *judge { return &judge{cfg: d} }

// note takes the outcome of one request.
func (j *judge) note(now int64, ok bool) {
	if j.down {
		if ok {
			*j = judge{cfg: j.cfg, since: now}
		}
		return
	}
	if now-j.since >= int64(j.cfg.IntervalS*1e9) {
		j.since, j.good, j.all = now, 0, 0
	}
	j.all++
	if ok {
		j.good++
	}
	if j.all >= j.cfg.Least && float64(j.good) < j.cfg.Threshold*float64(j.all) {
		j.down, j.probeAt = true, now+int64(j.cfg.RecoverS*1e9)
	}
}

// allows reports whether a request may be sent. While the server is down it lets a probe through when one is due.
func (j *judge) allows(now int64) bool {
	if !j.down {
		return true
	}
	if now < j.probeAt {
		return false
	}
	j.probeAt = now + int64(j.cfg.RecoverS*1e9)
	return true
}
