// SPDX-License-Identifier: Apache-2.0

package instancectl

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/seed-141914ff/okara/instances/lifecycle"
	"github.com/seed-141914ff/okara/instances/template"
	"github.com/seed-141914ff/okara/operator/api/v1alpha1"
	"github.com/seed-141914ff/okara/operator/internal/owned"
	"github.com/seed-141914ff/okara/operator/internal/runhome"
)

// workspaceName is the namespace of what an instance makes in the cluster: the template's
// second part and the id.
func workspaceName(r *lifecycle.Record) string {
	_, name, _ := strings.Cut(r.Template, "/")
	return name + "-" + r.ID
}

// ownerLabel is an owner as a label can say it.
func ownerLabel(o template.Owner) string {
	if o.ID == "" {
		return ""
	}
	sum := sha256.Sum256(fmt.Appendf(nil, "%s\x00%s\x00%s", o.Kind, o.Issuer, o.ID))
	return hex.EncodeToString(sum[:16])
}

// workspace makes sure of the namespace of an instance. One that somebody else made is a
// [*owned.TakenError].
func (c *Controller) workspace(ctx context.Context, o *v1alpha1.Instance, r *lifecycle.Record, name string) error {
	return runhome.Make(ctx, c.live, name, v1alpha1.UIDOf(o), workspaceLabels(r))
}

// untaken makes sure that the namespace of an instance is not somebody else's, and makes
// none: where it is gone there is nothing to destroy, and a new one would have no rights.
func (c *Controller) untaken(ctx context.Context, name string, uid types.UID) error {
	ns := &corev1.Namespace{}
	err := c.live.Get(ctx, client.ObjectKey{Name: name}, ns)
	if err == nil && !owned.Ours(ns, uid) {
		return &owned.TakenError{Kind: "Namespace", Key: client.ObjectKey{Name: name}}
	}
	return client.IgnoreNotFound(err)
}

// leaveWorkspace leaves the namespace of an instance to people.
func (c *Controller) leaveWorkspace(ctx context.Context, o *v1alpha1.Instance, name string) error {
	ns := &corev1.Namespace{}
	if err := c.live.Get(ctx, client.ObjectKey{Name: name}, ns); err != nil || !owned.Ours(ns, v1alpha1.UIDOf(o)) {
		return client.IgnoreNotFound(err)
	}
	for _, label := range []string{v1alpha1.LabelRuns, v1alpha1.LabelManaged, v1alpha1.LabelUID} {
		delete(ns.Labels, label)
	}
	return client.IgnoreNotFound(c.live.Update(ctx, ns))
}

// workspaceLabels are those of the namespace of an instance.
func workspaceLabels(r *lifecycle.Record) map[string]string {
	return map[string]string{
		v1alpha1.LabelRuns: "", v1alpha1.LabelOwner: ownerLabel(r.Owner), v1alpha1.LabelTemplate: objectName(r.Template),
		v1alpha1.LabelInstance: r.ID, v1alpha1.LabelPooled: strconv.FormatBool(r.Pooled),
	}
}
