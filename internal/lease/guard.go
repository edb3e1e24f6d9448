// SPDX-License-Identifier: Apache-2.0

package lease

import (
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/seed-141914ff/okara/statebackend"
)

// Guard stops a tool before the lease of its lock ends: fencing protects the state,
// but nothing protects what the tool changes. Without a heartbeat that reached the
// registry the tool is interrupted at half of the lease, so that it can end gracefully,
// and killed at four fifths. A lease ages during an outage and while the machine
// sleeps; a timer does not run then, so the age is polled.
func Guard(p *os.Process, lease func() (age, ttl time.Duration), failed func(error)) (end func()) {
	ended := make(chan struct{})
	var done sync.WaitGroup
	done.Go(func() {
		t := time.NewTicker(time.Second)
		defer t.Stop()
		interrupted := false
		for {
			select {
			case <-ended:
				return
			case <-t.C:
			}
			age, ttl := lease()
			switch {
			case ttl == 0 || age < ttl/2:
			case age >= ttl*4/5:
				_ = p.Kill() // the process may have ended meanwhile, which Wait reports
			case !interrupted:
				interrupted = true // once: the tools take a second interrupt as "stop at once"
				failed(fmt.Errorf("the lock could not be renewed in the registry for %s of %s (lock_ttl), so the tool was stopped before others may take over the lock: %w", age.Round(time.Second), ttl, statebackend.ErrLockLost))
				_ = p.Signal(os.Interrupt)
			}
		}
	})
	return func() {
		close(ended)
		done.Wait()
	}
}
