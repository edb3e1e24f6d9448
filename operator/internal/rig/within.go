// SPDX-License-Identifier: Apache-2.0

package rig

import (
	"context"
	"slices"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/seed-141914ff/okara/operator/api/v1alpha1"
)

// Within returns a client that lists the Instances and Approvals of some namespaces only, as a cache
// does, since the tests of a package share an API server.
func Within(c client.Client, namespaces ...string) client.Client { return within{c, namespaces} }

type within struct {
	client.Client
	namespaces []string
}

// List lists as the API server does, without the objects of others.
func (w within) List(ctx context.Context, list client.ObjectList, options ...client.ListOption) error {
	err := w.Client.List(ctx, list, options...)
	switch list := list.(type) {
	case *v1alpha1.InstanceList:
		list.Items = slices.DeleteFunc(list.Items, func(o v1alpha1.Instance) bool { return !slices.Contains(w.namespaces, o.Namespace) })
	case *v1alpha1.ApprovalList:
		list.Items = slices.DeleteFunc(list.Items, func(o v1alpha1.Approval) bool { return !slices.Contains(w.namespaces, o.Namespace) })
	}
	return err
}
