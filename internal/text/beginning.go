// SPDX-License-Identifier: Apache-2.0

package text

// Beginning keeps at most Max bytes of what is written. A write never fails, so no pipe breaks.
type Beginning struct {
	Max  int
	Size int64 // of all that was written
	kept []byte
}

// Write implements [io.Writer].
func (b *Beginning) Write(p []byte) (int, error) {
	b.kept = append(b.kept, p[:min(len(p), b.Max-len(b.kept))]...)
	b.Size += int64(len(p))
	return len(p), nil
}

// Bytes returns what was kept.
func (b *Beginning) Bytes() []byte { return b.kept }

// IsCut reports whether more was written.
func (b *Beginning) IsCut() bool { return b.Size > int64(len(b.kept)) }
