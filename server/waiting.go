package server

// waiting says since when each slot's connection has had no whole request here:
// mono ns, 0 for a slot whose request is being answered or that has no connection.
// Who has waited longest is closed first when newcomers need its place.
//
// It is set twice a request and searched only when the budget runs out, so it is a
// plain array of 8 bytes a slot (16,384 slots: 10 us a search) and not an ordered
// list, which would pay on every request.
type waiting struct {
	since []int64
	last  int64 // the last time that was set
}

func newWaiting(slots int) waiting { return waiting{since: make([]int64, slots)} }

// set replaces the slot's time by mono, or a nanosecond or so later: no two slots
// have the same, so that of those who came in one turn the first is the oldest.
func (w *waiting) set(slot uint32, mono int64) {
	w.last = max(mono, w.last+1)
	w.since[slot] = w.last
}

func (w *waiting) clear(slot uint32) { w.since[slot] = 0 }

// oldest appends up to n slots that wait since a time before now to out, which is
// empty, the one that has waited longest first. It allocates only while out grows.
func (w *waiting) oldest(out []uint32, n int, now int64) []uint32 {
	for slot, since := range w.since {
		if since == 0 || since >= now || len(out) == n && since >= w.since[out[n-1]] {
			continue
		}
		if len(out) < n {
			out = append(out, 0)
		}
		i := len(out) - 1
		for ; i > 0 && w.since[out[i-1]] > since; i-- {
			out[i] = out[i-1]
		}
		out[i] = uint32(slot)
	}
	return out
}
