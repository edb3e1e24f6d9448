// SPDX-License-Identifier: Apache-2.0

package instancectl

import (
	"cmp"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"

	"github.com/seed-141914ff/okara/operator/api/v1alpha1"
)

// unseenFor bounds how long a written object counts that the cache does not show.
const unseenFor = time.Minute

// overlay holds written Instances until the cache shows them. It is safe for concurrent use.
type overlay struct {
	mu    sync.Mutex
	wrote map[types.UID]written
}

type written struct {
	object *v1alpha1.Instance
	at     time.Time
}

// rememberWrite remembers an object as the API server returned it.
func (s *overlay) rememberWrite(o *v1alpha1.Instance) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.wrote == nil {
		s.wrote = map[types.UID]written{}
	}
	if had, ok := s.wrote[o.UID]; !ok || isNewer(o.ResourceVersion, had.object.ResourceVersion) {
		s.wrote[o.UID] = written{o.DeepCopy(), time.Now()}
	}
}

func (s *overlay) forgetObject(uid types.UID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.wrote, uid)
}

// overlayWrites returns the objects of a cache with later writes applied, the oldest object first.
func (s *overlay) overlayWrites(cached []v1alpha1.Instance) []v1alpha1.Instance {
	s.mu.Lock()
	defer s.mu.Unlock()
	there := map[types.UID]bool{}
	for i := range cached {
		uid := cached[i].UID
		there[uid] = true
		w, ok := s.wrote[uid]
		switch {
		case !ok:
		case isNewer(w.object.ResourceVersion, cached[i].ResourceVersion):
			cached[i] = *w.object.DeepCopy()
		default:
			delete(s.wrote, uid)
		}
	}
	for uid, w := range s.wrote {
		switch {
		case there[uid]:
		case time.Since(w.at) < unseenFor:
			cached = append(cached, *w.object.DeepCopy())
		default:
			delete(s.wrote, uid)
		}
	}
	slices.SortFunc(cached, func(a, b v1alpha1.Instance) int {
		return cmp.Or(a.CreationTimestamp.Time.Compare(b.CreationTimestamp.Time), cmp.Compare(a.UID, b.UID))
	})
	return cached
}

// isNewer reports whether a resource version of an object is later than another one.
func isNewer(a, b string) bool {
	order, err := resourceversion.CompareResourceVersion(a, b)
	return err == nil && order > 0
}
