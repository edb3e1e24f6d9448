// SPDX-License-Identifier: Apache-2.0

package kindrun

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/seed-141914ff/okara/operator/api/v1alpha1"
	"github.com/seed-141914ff/okara/operator/internal/fluxexec"
	"github.com/seed-141914ff/okara/operator/internal/runaccess"
	"github.com/seed-141914ff/okara/operator/internal/runhome"
	"github.com/seed-141914ff/okara/operator/internal/runtoken"
)

// Wanted is what an object and its definition ask for.
type Wanted struct {
	// Run is without what depends on where it runs: namespace, UID, access.
	Run     fluxexec.Spec
	Address string // of the module; "": it has none
	Copies  []Copy // Secrets that the run reads
}

// Copy is a Secret that a run reads under another name, in its own namespace.
type Copy struct {
	From client.ObjectKey
	Use  string // what the Secret has to agree to, by okara.dev/use: input:PLURAL
	Name string // of the copy
	Keys []string
}

// homeOf is the namespace in which an object runs.
func homeOf(def *v1alpha1.ModuleKind, o metav1.Object) string {
	if def.Spec.Run.Namespace == v1alpha1.NamespaceObject {
		return o.GetNamespace()
	}
	return homePrefix + string(v1alpha1.UIDOf(o))
}

// Place fills in what depends on where the object runs, and returns the run as what
// prepares it knows it. It is pure.
func (w *Wanted) Place(def *v1alpha1.ModuleKind, o metav1.Object) runaccess.Run {
	r := &w.Run
	r.Namespace, r.UID = homeOf(def, o), v1alpha1.UIDOf(o)
	r.Name = def.Spec.Run.Prefix + o.GetName()
	if len(def.Spec.Outputs.Include) > 0 {
		r.OutputsSecret = r.Name + "-okara-raw"
	}
	if r.ServiceAccountName == "" && r.Namespace != o.GetNamespace() {
		r.ServiceAccountName = runhome.Account
	}
	return runaccess.Run{
		Run: runtoken.Run{
			Namespace: o.GetNamespace(), UID: r.UID, Workspace: def.Spec.Names.Plural + "." + o.GetName(), Module: w.Address,
		},
		Home: r.Namespace, Name: r.Name, Repository: r.Module.Repository, Adopt: o.GetAnnotations()[v1alpha1.AnnotationAdopt] == "true",
	}
}
