// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"testing"
	"time"

	"github.com/opencontainers/go-digest"
)

// FuzzReceipt reads arbitrary receipts: only what was signed here is one, until
// it expires.
func FuzzReceipt(f *testing.F) {
	now := time.Unix(1_800_000_000, 0)
	l, err := newLinks([]Key{testKey(1)}, time.Hour, func() time.Time { return now })
	if err != nil {
		f.Fatal(err)
	}
	want := upload{Repository: "r", File: "f.zip", Digest: digest.FromString("x"), Size: 1, H1: "h1:x", Expires: now.Unix() + 1}
	good, err := l.receipt(want)
	if err != nil {
		f.Fatal(err)
	}
	old := want
	old.Expires = now.Unix()
	expired, err := l.receipt(old)
	if err != nil {
		f.Fatal(err)
	}
	for _, receipt := range []string{good, expired, good + "=", good[:len(good)-1], "a.b.c", ".."} {
		f.Add(receipt)
	}
	f.Fuzz(func(t *testing.T, receipt string) {
		u, err := l.readReceipt(receipt)
		if (err == nil) != (receipt == good) || err == nil && u != want {
			t.Errorf("%q is read as %+v, %v", receipt, u, err)
		}
	})
}
