package qos

// A timeline is a heap of things that have a time at which to look at them, earliest first and by id among equals, so that equal seeds make
// equal runs. The things know their place in it, which makes moving one O(log n) without a search.
type timeline[T timed] struct{ items []T }

// timed is what a timeline holds.
type timed interface {
	order() (at int64, id uint64)
	place() *int // index in the timeline; -1 outside
}

func (t *timeline[T]) len() int { return len(t.items) }

// first returns the earliest; the timeline must not be empty.
func (t *timeline[T]) first() T { return t.items[0] }

func (t *timeline[T]) push(x T) {
	*x.place() = len(t.items)
	t.items = append(t.items, x)
	t.up(len(t.items) - 1)
}

// fix moves x to where its time belongs after it has changed.
func (t *timeline[T]) fix(x T) {
	if len(t.items) == 1 {
		return
	}
	t.up(*x.place())
	t.down(*x.place())
}

func (t *timeline[T]) remove(x T) {
	i, last := *x.place(), len(t.items)-1
	t.swap(i, last)
	var zero T
	t.items[last] = zero
	t.items = t.items[:last]
	*x.place() = -1
	if i < last {
		t.fix(t.items[i])
	}
}

// all changes every time and orders anew.
func (t *timeline[T]) all(change func(T)) {
	for _, x := range t.items {
		change(x)
	}
	for i := len(t.items)/2 - 1; i >= 0; i-- {
		t.down(i)
	}
}

func (t *timeline[T]) before(i, j int) bool {
	at, id := t.items[i].order()
	at2, id2 := t.items[j].order()
	return at < at2 || at == at2 && id < id2
}

func (t *timeline[T]) swap(i, j int) {
	t.items[i], t.items[j] = t.items[j], t.items[i]
	*t.items[i].place(), *t.items[j].place() = i, j
}

func (t *timeline[T]) up(i int) {
	for i > 0 && t.before(i, (i-1)/2) {
		t.swap(i, (i-1)/2)
		i = (i - 1) / 2
	}
}

func (t *timeline[T]) down(i int) {
	for {
		small := 2*i + 1
		if small >= len(t.items) {
			return
		}
		if small+1 < len(t.items) && t.before(small+1, small) {
			small++
		}
		if !t.before(small, i) {
			return
		}
		t.swap(i, small)
		i = small
	}
}
