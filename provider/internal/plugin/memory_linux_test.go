// SPDX-License-Identifier: Apache-2.0

package plugin_test

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"os"
	"testing"

	"github.com/seed-141914ff/okara/internal/must"
)

// TestMemory: 64 MiB of state take at most three times that; larger ones briefly 3.4, the library's
// buffer doubling.
func TestMemory(t *testing.T) {
	values, _ := registry(t)
	p := start(t, values)
	p.must(p.write("default", stateOf(1, "small")))
	before := p.peak()
	noise := make([]byte, 32<<20)
	source := rand.NewChaCha8([32]byte{})
	_, _ = source.Read(noise) // never fails
	text := hex.EncodeToString(noise)
	state := stateOf(2, text[len(stateOf(2, "")):])
	p.must(p.write("default", state))
	written := p.peak()
	if got := p.state("default"); !bytes.Equal(got, state) {
		t.Errorf("%d bytes came back of %d", len(got), len(state))
	}
	read := p.peak()
	t.Logf("MiB: %d before, %d after writing, %d after reading", before>>20, written>>20, read>>20)
	if most := 3 * len(state); read-before > most {
		t.Errorf("the provider took %d MiB for a state of %d MiB", (read-before)>>20, len(state)>>20)
	}
}

// peak returns the peak memory of the process in bytes.
func (p *process) peak() int {
	p.t.Helper()
	b := must.Get(os.ReadFile(fmt.Sprintf("/proc/%d/status", p.client.ReattachConfig().Pid)))(p.t)
	_, rest, _ := bytes.Cut(b, []byte("VmHWM:"))
	kib := 0
	must.Get(fmt.Sscan(string(rest), &kib))(p.t)
	return kib << 10
}
