package sim

// A clock is one machine's CLOCK_BOOTTIME: it never stops or goes back, but its rate may be off, and where it started is
// nobody's business but its own.
type clock struct {
	start int64 // reading at real time 0, ns
	ppm   int64 // how much too fast, in millionths
}

// read is the clock at a moment of real time.
func (c clock) read(real int64) int64 {
	if c.ppm == 0 {
		return c.start + real
	}
	return c.start + real + mulPPM(real, c.ppm)
}

// when is the first moment of real time at which the clock reads at least t: at its start or before, if t is no later.
func (c clock) when(t int64) int64 {
	t -= c.start
	switch {
	case c.ppm == 0 || t <= 0:
		return t
	case c.ppm < 0: // it reads real*(1e6+ppm)/1e6, rounded up
		return mul(t-1, 1e6, 1e6+c.ppm) + 1
	}
	real := mul(t, 1e6, 1e6+c.ppm) // the same, rounded down
	if real+mulPPM(real, c.ppm) < t {
		real++
	}
	return real
}

// mulPPM is t*ppm/1e6: no overflow within ten days of virtual time at 1 %.
func mulPPM(t, ppm int64) int64 { return t * ppm / 1_000_000 }
