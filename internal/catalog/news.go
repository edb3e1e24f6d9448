// SPDX-License-Identifier: Apache-2.0

package catalog

import "sync"

// news tells who waits that this process has published or withdrawn something.
type news struct {
	mu      sync.Mutex // guards changed
	changed chan struct{}
}

func (n *news) wait() <-chan struct{} {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.changed == nil {
		n.changed = make(chan struct{})
	}
	return n.changed
}

func (n *news) tell() {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.changed != nil {
		close(n.changed)
		n.changed = nil
	}
}

// News returns a channel that is closed when [Catalog.Changed] or
// [Catalog.ChangedIndex] is called next: what a list said before may be old.
func (c *Catalog) News() <-chan struct{} { return c.news.wait() }
