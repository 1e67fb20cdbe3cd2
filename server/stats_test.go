package server

import (
	"reflect"
	"testing"
)

// Every counter of a ring is in the sum of the rings.
func TestStatsAddEverything(t *testing.T) {
	var one, sum Stats
	v := reflect.ValueOf(&one).Elem()
	var fill func(v reflect.Value)
	n := uint64(0)
	fill = func(v reflect.Value) {
		switch v.Kind() {
		case reflect.Uint64:
			n++
			v.SetUint(n)
		case reflect.Array:
			for i := range v.Len() {
				fill(v.Index(i))
			}
		case reflect.Struct:
			for i := range v.NumField() {
				fill(v.Field(i))
			}
		default:
			t.Fatalf("a counter of kind %v", v.Kind())
		}
	}
	fill(v)
	if sum.Add(&one); sum != one {
		t.Errorf("sum %+v\nof  %+v", sum, one)
	}
}
