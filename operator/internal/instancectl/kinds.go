// SPDX-License-Identifier: Apache-2.0

package instancectl

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/seed-141914ff/okara/instances/api"
	"github.com/seed-141914ff/okara/operator/api/v1alpha1"
)

// Kinds are the ModuleKinds of the cluster, read from a cache, as the portal shows them.
type Kinds struct{ Reader client.Reader }

// Kinds returns those that are not being removed, by name.
func (k Kinds) Kinds() []api.Kind {
	var list v1alpha1.ModuleKindList
	if err := k.Reader.List(context.Background(), &list); err != nil {
		return nil // the cache has stopped
	}
	var all []api.Kind
	for i := range list.Items {
		if list.Items[i].DeletionTimestamp == nil {
			all = append(all, kindDoc(&list.Items[i]))
		}
	}
	slices.SortFunc(all, func(a, b api.Kind) int { return strings.Compare(a.Name, b.Name) })
	return all
}

// kindDoc is a definition as the portal shows it; Invalid: why there is no kind.
func kindDoc(def *v1alpha1.ModuleKind) api.Kind {
	s := &def.Spec
	d := &def.Spec.Dashboard
	out := api.Kind{
		Name: def.Name, Kind: s.Names.Kind, APIVersion: v1alpha1.KindsGroup + "/" + v1alpha1.KindsVersion,
		Title: d.Title, Description: d.Description, Icon: d.Icon, Category: d.Category, Tags: d.Tags,
		Module: cmp.Or(s.Module.Address, s.Module.Repository), Version: s.Module.Version, Example: def.Status.Example,
	}
	if m := def.Status.Module; m != nil {
		out.Version = m.Version
	}
	switch ready := meta.FindStatusCondition(def.Status.Conditions, v1alpha1.ConditionReady); {
	case def.Status.Example != "": // its CRD exists, even if a later change failed
	case ready == nil:
		out.Invalid = "the operator has not processed it yet"
	case ready.Status != metav1.ConditionTrue:
		out.Invalid = ready.Message
	}
	return out
}
