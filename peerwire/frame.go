package peerwire

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"google.golang.org/protobuf/encoding/protowire"
)

// Bounds of a frame.
const (
	maxFrame    = 64 << 10 // bytes of its protobuf; checked before anything is allocated for it
	maxHello    = 4 << 10  // bytes of the first one, from somebody not yet known
	maxElements = 1024     // messages in it, those of a hand-over's reporters too; counted before anything is decoded
	maxDepth    = 16       // messages within messages
	frameHead   = 4        // bytes of its length, big-endian
)

// Errors of a frame. After any of them the connection is closed: nothing tells where the next frame would begin.
var (
	errFrameLong   = fmt.Errorf("frame is longer than %d bytes", maxFrame)
	errHelloLong   = fmt.Errorf("first frame is longer than %d bytes", maxHello)
	errElements    = fmt.Errorf("frame of more than %d messages", maxElements)
	errFrameGroup  = errors.New("frame with a group")
	errFrameBroken = errors.New("frame is no protobuf")
)

// readFrame reads one frame into buf, which it makes larger if it must, and returns the frame. Length zero is a frame.
func readFrame(r io.Reader, buf []byte, most int) (frame, room []byte, err error) {
	var head [frameHead]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return nil, buf, err
	}
	n := binary.BigEndian.Uint32(head[:])
	if n > uint32(most) {
		if most == maxHello {
			return nil, buf, errHelloLong
		}
		return nil, buf, errFrameLong
	}
	if int(n) > cap(buf) {
		buf = make([]byte, max(int(n), 2*cap(buf), 512))
	}
	frame = buf[:n]
	if _, err := io.ReadFull(r, frame); err != nil {
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		return nil, buf, err
	}
	return frame, buf, nil
}

// scanFrame counts the messages of a frame before anything is made of them: two bytes are enough for an empty message, and a decoded one takes a
// hundred times that.
func scanFrame(b []byte) error {
	elements := 0
	for len(b) > 0 {
		num, inner, rest, err := nextField(b)
		if err != nil {
			return err
		}
		b = rest
		if inner == nil {
			continue
		}
		elements++
		if num == fieldHandOvers {
			for len(inner) > 0 && elements <= maxElements {
				_, deeper, rest, err := nextField(inner)
				if err != nil {
					return err
				}
				if inner = rest; deeper != nil {
					elements++
				}
			}
		}
		if elements > maxElements {
			return errElements
		}
	}
	return nil
}

// nextField cuts the first field off; inner is nil unless it has a length.
func nextField(b []byte) (num protowire.Number, inner, rest []byte, err error) {
	num, kind, n := protowire.ConsumeTag(b)
	if n < 0 {
		return 0, nil, nil, errFrameBroken
	}
	b = b[n:]
	switch kind {
	case protowire.StartGroupType, protowire.EndGroupType:
		return 0, nil, nil, errFrameGroup
	case protowire.BytesType:
		inner, n = protowire.ConsumeBytes(b)
		if n >= 0 && inner == nil {
			inner = b[:0]
		}
	default:
		n = protowire.ConsumeFieldValue(num, kind, b)
	}
	if n < 0 {
		return 0, nil, nil, errFrameBroken
	}
	return num, inner, b[n:], nil
}
