// SPDX-License-Identifier: Apache-2.0

package instancectl_test

import (
	"context"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/seed-141914ff/okara/instances/lifecycle"
	"github.com/seed-141914ff/okara/operator/internal/instancectl"
)

// contested is a client whose first deletions meet a change of the operator.
type contested struct {
	client.Client
	conflicts int
}

func (c *contested) Delete(ctx context.Context, o client.Object, options ...client.DeleteOption) error {
	if c.conflicts > 0 {
		c.conflicts--
		return apierrors.NewConflict(schema.GroupResource{Group: "okara.dev", Resource: "instances"}, o.GetName(), nil)
	}
	return c.Client.Delete(ctx, o, options...)
}

// TestConflictIsRepeated checks that a request does not fail because the operator changed
// the object in the same moment, and that it ends where that goes on.
func TestConflictIsRepeated(t *testing.T) {
	s := newSite(t)
	s.template("sandbox.vpc", nil)
	id := s.ready("anna")
	c := &contested{Client: s.cached(cluster.Admin(t)), conflicts: 5}
	p := instancectl.NewStore(c, instancectl.NewCatalog(c, s.settings), s.settings, s.time)
	if _, err := s.do(p, "anna", lifecycle.DestroyNow{ID: id}); err == nil || !strings.Contains(err.Error(), "Operation cannot be fulfilled") {
		t.Errorf("five conflicts: %v", err)
	}
	c.conflicts = 4
	if _, err := s.do(p, "anna", lifecycle.DestroyNow{ID: id}); err != nil {
		t.Errorf("four conflicts: %v", err)
	}
	if o := s.all()[id]; o != nil && o.DeletionTimestamp == nil {
		t.Error("the instance stays")
	}
}
