package main

import (
	"reflect"
	"testing"

	"github.com/talon-worker/talon/server"
)

// TestEveryCounterReachesAdmin sets one plain counter of server.Stats at a
// time, the ring's own included, and wants exactly one number of the admin
// port's copy to change: a counter forgotten or copied twice fails.
func TestEveryCounterReachesAdmin(t *testing.T) {
	var s server.Stats
	for _, f := range counters(reflect.ValueOf(&s).Elem(), "Stats") {
		f.value.SetUint(7)
		if got := sevens(reflect.ValueOf(adminRing(&s))); got != 1 {
			t.Errorf("%s reaches %d fields of admin.Ring, want 1", f.name, got)
		}
		f.value.SetUint(0)
	}
}

type counter struct {
	name  string
	value reflect.Value
}

// counters lists the uint64 fields of a struct and of the structs and arrays in it.
func counters(v reflect.Value, name string) (all []counter) {
	switch v.Kind() {
	case reflect.Uint64:
		return []counter{{name, v}}
	case reflect.Struct:
		for i := range v.NumField() {
			if field := v.Type().Field(i); field.Name != "Duration" { // checked below
				all = append(all, counters(v.Field(i), name+"."+field.Name)...)
			}
		}
	case reflect.Array:
		for i := range v.Len() {
			all = append(all, counters(v.Index(i), name)...)
		}
	}
	return all
}

func sevens(v reflect.Value) (n int) {
	for i := range v.NumField() {
		switch f := v.Field(i); f.Kind() {
		case reflect.Uint64:
			if f.Uint() == 7 {
				n++
			}
		case reflect.Map:
			for _, k := range f.MapKeys() {
				if f.MapIndex(k).Uint() == 7 {
					n++
				}
			}
		}
	}
	return n
}

func TestHistogramBounds(t *testing.T) {
	var h server.Histogram
	h.Observe(999)               // under a microsecond
	h.Observe(3_000_000)         // 3 ms
	h.Observe(3_600_000_000_000) // an hour
	got := adminHistogram(&h)
	if len(got.Count) != len(got.Upper)+1 {
		t.Fatalf("%d buckets for %d bounds", len(got.Count), len(got.Upper))
	}
	for i, want := range map[int]float64{0: 1e-6, 12: 0.004096} {
		if got.Upper[i] != want || got.Count[i] != 1 {
			t.Errorf("bucket %d: up to %gs holds %d, want up to %gs and 1", i, got.Upper[i], got.Count[i], want)
		}
	}
	if rest := got.Count[len(got.Upper)]; rest != 1 {
		t.Errorf("the last bucket holds %d, want the hour", rest)
	}
	if want := 3600.003000999; got.Sum != want {
		t.Errorf("sum %v, want %v", got.Sum, want)
	}
}
