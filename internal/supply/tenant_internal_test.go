// SPDX-License-Identifier: Apache-2.0

package supply

import (
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/seed-141914ff/okara/oci"
)

func TestTenantBodyEnds(t *testing.T) {
	for size, want := range map[int]error{9: nil, 10: nil, 11: oci.ErrTooLarge, 1000: oci.ErrTooLarge} {
		ended := false
		b := &tenantBody{ReadCloser: io.NopCloser(strings.NewReader(strings.Repeat("a", size))), left: 10, cancel: func() { ended = true }}
		got, err := io.ReadAll(b)
		if !errors.Is(err, want) || len(got) > 11 {
			t.Errorf("%d bytes: %d read, %v", size, len(got), err)
		}
		if err := b.Close(); err != nil || !ended {
			t.Errorf("closed: %v, %v", ended, err)
		}
	}
}
