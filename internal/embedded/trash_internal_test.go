// SPDX-License-Identifier: Apache-2.0

package embedded

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/distribution/distribution/v3/registry/storage/driver"
)

// TestEmptyTrashBesideDelete: deletions and a collection that empties the trash succeed.
func TestEmptyTrashBesideDelete(t *testing.T) {
	s := newStore(t.TempDir(), newChecks(nil))
	const deleters, rounds = 4, 25
	var deleting, emptying sync.WaitGroup
	done := make(chan struct{})
	emptying.Go(func() {
		for {
			if err := s.emptyTrash(); err != nil {
				t.Errorf("emptying the trash: %v", err)
				return
			}
			select {
			case <-done:
				return
			default:
			}
		}
	})
	for d := range deleters {
		deleting.Go(func() {
			for range rounds {
				path := fmt.Sprintf("/tag-%d", d)
				for _, link := range []string{"a", "b", "c"} {
					if err := s.PutContent(t.Context(), path+"/"+link, []byte("x")); err != nil {
						t.Error(err)
						return
					}
				}
				if err := s.Delete(t.Context(), path); err != nil {
					t.Errorf("deleting a tag: %v", err)
					return
				}
			}
		})
	}
	deleting.Wait()
	close(done)
	emptying.Wait()
	for d := range deleters {
		if _, err := s.StorageDriver.Stat(t.Context(), fmt.Sprintf("/tag-%d", d)); !errors.As(err, &driver.PathNotFoundError{}) {
			t.Errorf("tag %d is there: %v", d, err)
		}
	}
	if left, err := os.ReadDir(filepath.Join(s.root, trash)); err != nil || len(left) > 0 {
		t.Errorf("left in the trash: %v, %v", left, err)
	}
}
