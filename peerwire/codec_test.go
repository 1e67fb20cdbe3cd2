package peerwire

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/talon-worker/talon/peerwire/peerpb"
	"github.com/talon-worker/talon/qos"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// fill sets every field of a value to something other than zero, so that one that the wire forgets is missed.
func fill(v reflect.Value, rng *rand.Rand) {
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			fill(v.Field(i), rng)
		}
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1+rng.IntN(3), 3))
		for i := range v.Len() {
			fill(v.Index(i), rng)
		}
	case reflect.Array:
		for i := range v.Len() {
			fill(v.Index(i), rng)
		}
	case reflect.String:
		v.SetString(fmt.Sprintf("%x", 1+rng.Uint64()))
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Uint8:
		v.SetUint(1 + rng.Uint64N(uint64(qos.UnknownVersion)))
	case reflect.Uint64:
		v.SetUint(1 + rng.Uint64N(math.MaxUint64))
	case reflect.Int:
		v.SetInt(1 + rng.Int64N(math.MaxInt32))
	case reflect.Int64:
		v.SetInt(int64(rng.Uint64()) | 1)
	default:
		panic(v.Kind())
	}
}

// drawBatch is a batch with something in every field of everything.
func drawBatch(seed uint64) *batch {
	b, rng := &batch{}, rand.New(rand.NewPCG(seed, 1))
	v := reflect.NewAt(reflect.TypeFor[batch](), reflect.ValueOf(b).UnsafePointer()).Elem()
	for i := range v.NumField() {
		f := v.Field(i)
		fill(reflect.NewAt(f.Type(), f.Addr().UnsafePointer()).Elem(), rng)
	}
	return b
}

// readAll decodes what an encoder has made.
func readAll(t *testing.T, frames []byte) (*batch, int) {
	t.Helper()
	r, b, n := bytes.NewReader(frames), &batch{}, 0
	for ; ; n++ {
		frame, _, err := readFrame(r, nil, maxFrame)
		if errors.Is(err, io.EOF) {
			return b, n
		}
		check(t, err)
		check(t, scanFrame(frame))
		h, bye, err := decode(frame, b)
		check(t, err)
		if h != nil || bye != "" {
			t.Fatalf("hello %v, goodbye %q in a batch", h, bye)
		}
	}
}

// TestEveryFieldTravels sends batches with something in every field, and gets them back as they were.
func TestEveryFieldTravels(t *testing.T) {
	var e encoder
	for seed := range uint64(200) {
		want := drawBatch(seed)
		e.reset()
		got, _ := readAll(t, e.encode(want))
		if !reflect.DeepEqual(got, want) {
			g, w := reflect.ValueOf(*got), reflect.ValueOf(*want)
			for i := range w.NumField() {
				if a, b := fmt.Sprintf("%+v", g.Field(i)), fmt.Sprintf("%+v", w.Field(i)); a != b {
					t.Errorf("seed %d, %s:\n got %s\nwant %s", seed, w.Type().Field(i).Name, a, b)
				}
			}
			t.FailNow()
		}
	}
	want := &hello{version: 3, oldest: 2, worker: "w", to: "v", epoch: 5, ring: 7, limits: sharedLimits{1, 2, 3, 4}}
	got, err := readHello(bufio.NewReader(bytes.NewReader(appendHello(nil, want))))
	check(t, err)
	if *got != *want {
		t.Errorf("hello %+v, want %+v", got, want)
	}
}

// TestFramesAreCut: a long batch goes in several frames, each within the bounds, and nothing is lost.
func TestFramesAreCut(t *testing.T) {
	want := &batch{}
	for i := range uint64(3000) {
		b := drawBatch(i)
		want.reports = append(want.reports, b.reports...)
		want.asks = append(want.asks, b.asks...)
	}
	var e encoder
	got, frames := readAll(t, e.encode(want))
	if !reflect.DeepEqual(got.reports, want.reports) || !reflect.DeepEqual(got.asks, want.asks) {
		t.Error("not all has come")
	}
	if least := (len(want.reports) + len(want.asks)) / maxElements; frames < least {
		t.Errorf("%d frames for %d messages", frames, len(want.reports)+len(want.asks))
	}
}

// TestLargestHandOverFits: 256 reporters with the longest ids and the largest numbers that can be make one frame.
func TestLargestHandOverFits(t *testing.T) {
	h := drawBatch(1).handOvers[0]
	h.Limit.Tenant = strings.Repeat("t", maxTenant)
	for i := range h.Wanted {
		h.Wanted[i] = math.MaxInt64
	}
	r := h.Reporters[0]
	r.From.Worker = qos.WorkerID(strings.Repeat("w", maxWorkerID))
	for _, n := range []*int64{&r.Stamp, &r.Total.Charged, &r.Total.Refunded, &r.Lapsed, &r.Wanted, &r.Reserved} {
		*n = math.MaxInt64
	}
	r.From.Epoch, r.From.Cell, r.Generation, r.Sequence = math.MaxInt64, math.MaxInt64, math.MaxInt64, math.MaxInt64
	r.Mark = qos.Mark{Owner: qos.OwnerEpoch{Ring: math.MaxInt64, Worker: math.MaxInt64}, Version: math.MaxInt64}
	h.Reporters = slices.Repeat([]qos.HandOverReporter{r}, 256)
	var e encoder
	frames := e.encode(&batch{handOvers: []qos.HandOver{h}})
	if e.large != 0 {
		t.Fatal("it does not fit")
	}
	t.Logf("%d bytes", len(frames))
	if got, n := readAll(t, frames); n != 1 || !reflect.DeepEqual(got.handOvers[0], h) {
		t.Errorf("%d frames, or another hand-over", n)
	}
}

// TestMessagesThatCannotGo are left out and counted, and take nothing else with them.
func TestMessagesThatCannotGo(t *testing.T) {
	b := drawBatch(1)
	n := len(b.reports)
	bad := b.reports[0]
	bad.Key.Tenant = "\xff"
	long := b.reports[0]
	long.Key.Tenant = strings.Repeat("x", maxFrame)
	b.reports = slices.Concat([]qos.UsageReport{bad, long}, b.reports)
	b.asks, b.answers, b.snapshots = nil, nil, nil
	var e encoder
	got, _ := readAll(t, e.encode(b))
	if e.large != 2 || len(got.reports) != n {
		t.Errorf("%d left out, %d of %d came", e.large, len(got.reports), n)
	}
}

// TestEncodingAllocatesNothing once the encoder has its room.
func TestEncodingAllocatesNothing(t *testing.T) {
	b := drawBatch(1)
	b.handOvers = nil // rare
	var e encoder
	e.encode(b)
	if n := testing.AllocsPerRun(100, func() { e.reset(); e.encode(b) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// TestReadFrame gives the reader what a peer may send, whole and a byte at a time.
func TestReadFrame(t *testing.T) {
	head := func(n uint32, body string) string {
		return string(binary.BigEndian.AppendUint32(nil, n)) + body
	}
	for _, tt := range []struct {
		name, in string
		most     int
		want     string
		err      error
	}{
		{"nothing", "", maxFrame, "", io.EOF},
		{"half a length", "\x00\x00", maxFrame, "", io.ErrUnexpectedEOF},
		{"an empty frame", head(0, ""), maxFrame, "", nil},
		{"one byte", head(1, "x"), maxFrame, "x", nil},
		{"the longest", head(maxFrame, strings.Repeat("x", maxFrame)), maxFrame, strings.Repeat("x", maxFrame), nil},
		{"one more", head(maxFrame+1, strings.Repeat("x", maxFrame+1)), maxFrame, "", errFrameLong},
		{"4 GiB", head(math.MaxUint32, "x"), maxFrame, "", errFrameLong},
		{"minus one, to some", head(1<<31, "x"), maxFrame, "", errFrameLong},
		{"a long hello", head(maxHello+1, "x"), maxHello, "", errHelloLong},
		{"cut short", head(3, "xx"), maxFrame, "", io.ErrUnexpectedEOF},
		{"a length and no more", head(3, ""), maxFrame, "", io.ErrUnexpectedEOF},
	} {
		for _, r := range []io.Reader{strings.NewReader(tt.in), iotest.OneByteReader(strings.NewReader(tt.in))} {
			got, room, err := readFrame(r, nil, tt.most)
			if !errors.Is(err, tt.err) || err == nil && string(got) != tt.want {
				t.Errorf("%s: %d bytes, %v; want %d, %v", tt.name, len(got), err, len(tt.want), tt.err)
			}
			if cap(room) > max(tt.most, 512) {
				t.Errorf("%s: %d bytes of room", tt.name, cap(room))
			}
		}
	}
}

// TestScanFrame: whatever takes far more memory than it has bytes is refused before it is decoded.
func TestScanFrame(t *testing.T) {
	field := func(num protowire.Number, body []byte) []byte {
		return protowire.AppendBytes(protowire.AppendTag(nil, num, protowire.BytesType), body)
	}
	deep := []byte{}
	for range 100 {
		deep = field(12, deep) // a mark in a mark in a mark
	}
	for _, tt := range []struct {
		name string
		in   []byte
		err  error
	}{
		{"nothing", nil, nil},
		{"as many messages as may be", bytes.Repeat(field(fieldReports, nil), maxElements), nil},
		{"one more", bytes.Repeat(field(fieldReports, nil), maxElements+1), errElements},
		{"64 KiB of empty messages", bytes.Repeat(field(fieldAnswers, nil), maxFrame/2), errElements},
		{"of empty reporters in a hand-over", field(fieldHandOvers, bytes.Repeat(field(13, nil), maxFrame/3)), errElements},
		{"of unknown fields", bytes.Repeat(field(99, nil), maxFrame/3), errElements},
		{"an unknown number", protowire.AppendVarint(protowire.AppendTag(nil, 99, protowire.VarintType), 7), nil},
		{"a group", protowire.AppendTag(nil, 3, protowire.StartGroupType), errFrameGroup},
		{"the end of one", protowire.AppendTag(nil, 3, protowire.EndGroupType), errFrameGroup},
		{"field zero", []byte{0x02, 0x00}, errFrameBroken},
		{"an endless number", bytes.Repeat([]byte{0xff}, 20), errFrameBroken},
		{"a message that is longer than the frame", []byte{0x12, 0x7f}, errFrameBroken},
		{"a broken hand-over", field(fieldHandOvers, []byte{0xff}), errFrameBroken},
	} {
		if err := scanFrame(tt.in); !errors.Is(err, tt.err) {
			t.Errorf("%s: %v, want %v", tt.name, err, tt.err)
		}
	}
	if _, _, err := decode(field(fieldHandOvers, field(12, deep)), &batch{}); err != nil {
		t.Errorf("unknown fields deep down: %v, want them ignored", err)
	}
}

// TestDecode: what is well formed and means nothing is read as nothing, never as something else.
func TestDecode(t *testing.T) {
	field := func(num protowire.Number, body []byte) []byte {
		return protowire.AppendBytes(protowire.AppendTag(nil, num, protowire.BytesType), body)
	}
	number := func(num protowire.Number, n uint64) []byte {
		return protowire.AppendVarint(protowire.AppendTag(nil, num, protowire.VarintType), n)
	}
	var b batch
	if _, _, err := decode(field(fieldReports, field(1, number(2, 256+1))), &b); err != nil || b.reports[0].Key.Metric != 0 {
		t.Errorf("metric 257 is read as %v, %v; want none", b.reports[0].Key.Metric, err)
	}
	if _, _, err := decode(field(fieldRedirects, number(8, 77)), &b); err != nil || b.redirects[0].Reason != qos.NotOwner {
		t.Errorf("a reason of a later version is read as %v, %v; want not_owner", b.redirects[0].Reason, err)
	}
	if _, _, err := decode(field(fieldRedirects, nil), &b); err != nil || b.redirects[1].Reason != qos.NotOwner {
		t.Errorf("a redirect that accepts is read as %v, %v; want not_owner", b.redirects[1].Reason, err)
	}
	if _, _, err := decode(field(fieldGoodbye, []byte("\xff")), &b); !errors.Is(err, errFrameBroken) {
		t.Errorf("text that is not UTF-8: %v", err)
	}
	old := slices.Concat(field(fieldAsks, number(4, 9)), field(500, []byte("later")), number(501, 1))
	if _, _, err := decode(old, &b); err != nil || len(b.asks) != 1 || b.asks[0].Stamp != 9 {
		t.Errorf("a frame with fields of a later version: %+v, %v", b.asks, err)
	}
}

// TestOnlyAppend holds the messages to their rule: every field that was ever there still has its number, type and name.
func TestOnlyAppend(t *testing.T) {
	const list = "testdata/fields.txt"
	var now []string
	var walk func(protoreflect.MessageDescriptors)
	walk = func(all protoreflect.MessageDescriptors) {
		for i := range all.Len() {
			m := all.Get(i)
			for j := range m.Fields().Len() {
				f := m.Fields().Get(j)
				kind := f.Kind().String()
				if f.Message() != nil {
					kind = string(f.Message().Name())
				}
				now = append(now, fmt.Sprintf("%s %d %s %s %s", m.Name(), f.Number(), f.Cardinality(), kind, f.Name()))
			}
			walk(m.Messages())
		}
	}
	walk(peerpb.File_peer_proto.Messages())
	then, err := os.ReadFile(list)
	check(t, err)
	past := strings.Split(strings.TrimSpace(string(then)), "\n")
	for _, f := range past {
		if !slices.Contains(now, f) {
			t.Errorf("%q is gone or another: the rule is only to append", f)
		}
	}
	for _, f := range now {
		if !slices.Contains(past, f) {
			t.Errorf("%q is new: add the line to %s", f, list)
		}
	}
}

// TestFramesOfOthers: the wire vectors of the project that the proposal came from are of another protocol (magic, bincode), and the peer port is no place
// for them. Every one of them is refused as a frame that is too long or broken, or names nobody.
func TestFramesOfOthers(t *testing.T) {
	text, err := os.ReadFile("../../shared/vectors/talon_wire_vectors.json")
	if errors.Is(err, os.ErrNotExist) {
		t.Skip("the vectors are not here")
	}
	check(t, err)
	var file struct {
		Vectors []struct{ Name, Hex string }
	}
	check(t, json.Unmarshal(text, &file))
	for _, v := range file.Vectors {
		raw := must(hex.DecodeString(v.Hex))
		if h, err := readHello(bufio.NewReader(bytes.NewReader(raw))); err == nil {
			t.Errorf("%s is taken for the hello %+v", v.Name, h)
		}
	}
	if len(file.Vectors) == 0 {
		t.Error("no vectors in the file")
	}
}

// FuzzFrame reads whatever there is: no panic, no more room than a frame, no more messages than counted, and what was decoded can be sent on.
func FuzzFrame(f *testing.F) {
	var e encoder
	for seed := range uint64(3) { // a kind at a time: the fuzzer spends a minute on shortening each long one
		b := drawBatch(seed)
		for _, one := range []batch{
			{reports: b.reports[:1]}, {snapshots: b.snapshots[:1]}, {redirects: b.redirects[:1]}, {asks: b.asks[:1]}, {answers: b.answers[:1]},
			{handOvers: b.handOvers[:1]},
		} {
			e.reset()
			f.Add(slices.Clone(e.encode(&one)))
		}
	}
	f.Add(appendHello(nil, &hello{version: 1, oldest: 1, worker: "w", epoch: 1}))
	f.Add(appendGoodbye(nil, "why"))
	f.Add([]byte{0xff, 0xff, 0xff, 0xff})
	f.Fuzz(func(t *testing.T, in []byte) {
		r := bytes.NewReader(in)
		var frame, buf []byte
		var err error
		for {
			if frame, buf, err = readFrame(r, buf, maxFrame); err != nil {
				break
			}
			if scanFrame(frame) != nil {
				break
			}
			var b batch
			if _, _, err := decode(frame, &b); err != nil {
				break
			}
			n := len(b.reports) + len(b.snapshots) + len(b.redirects) + len(b.asks) + len(b.answers) + len(b.handOvers)
			for i := range b.handOvers {
				n += len(b.handOvers[i].Reporters)
			}
			if n > maxElements {
				t.Fatalf("%d messages", n)
			}
			var e encoder
			again, _ := readAll(t, e.encode(&b))
			if e.large == 0 && len(again.reports) != len(b.reports) {
				t.Fatalf("%d reports, sent on %d", len(b.reports), len(again.reports))
			}
		}
		if cap(buf) > maxFrame {
			t.Fatalf("%d bytes of room", cap(buf))
		}
	})
}

func BenchmarkEncodeReports(b *testing.B) {
	batch := &batch{reports: slices.Repeat(drawBatch(1).reports[:1], 100)}
	var e encoder
	b.ReportAllocs()
	for b.Loop() {
		e.reset()
		e.encode(batch)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/100, "ns/report")
}

func BenchmarkDecodeReports(b *testing.B) {
	var e encoder
	frame := e.encode(&batch{reports: slices.Repeat(drawBatch(1).reports[:1], 100)})[frameHead:]
	var into batch
	b.ReportAllocs()
	for b.Loop() {
		into.reset()
		if err := scanFrame(frame); err != nil {
			b.Fatal(err)
		}
		if _, _, err := decode(frame, &into); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/100, "ns/report")
}
