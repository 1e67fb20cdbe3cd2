package sim

// A perfect is what a limiter could do at best that knew everything at once: one bucket, one queue in the order of arrival, and requests that go when their
// deadline has passed. It says what is due of demand that comes in clumps: where a burst holds two requests, three that come together and none for a while
// leave a part of the rate to nobody.
type perfect struct {
	bucket
	need, deadline, served int64
	queue                  []batch
	head                   int
}

// arrive takes in n requests at now.
func (p *perfect) arrive(now, n int64) {
	p.upTo(now)
	if p.head == len(p.queue) {
		p.queue, p.head = p.queue[:0], 0
	}
	p.queue = append(p.queue, batch{now, n})
}

// upTo serves all that can be served before now: each request as soon as the bucket holds it.
func (p *perfect) upTo(now int64) {
	for p.head < len(p.queue) {
		b := &p.queue[p.head]
		p.to(max(p.at, b.at))
		if p.level < p.need {
			at := p.at + mul(p.need-p.level, 1e9, p.rate) + 1
			switch late := at > b.at+p.deadline; {
			case late && now > b.at+p.deadline:
				p.head++
				continue
			case late, at >= now:
				return
			}
			p.to(at)
			if p.level < p.need {
				continue
			}
		}
		n := min(p.level/p.need, b.n)
		p.take(p.at, n*p.need)
		p.served += n * p.need
		if b.n -= n; b.n == 0 {
			p.head++
		}
	}
}
