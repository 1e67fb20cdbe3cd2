// Package impure does what the package above must not; the test of that rule reads it.
package impure

import (
	"sync"
	"time"
)

var lock sync.Mutex

func clock(m map[int]int) int64 {
	sum := int64(0)
	for k := range m {
		sum += int64(k)
	}
	for range m { // any order: only counts
		sum++
	}
	go lock.Lock()
	var c chan int
	_ = c
	return time.Now().UnixNano() + int64(time.Second) + sum
}
