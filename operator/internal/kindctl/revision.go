// SPDX-License-Identifier: Apache-2.0

package kindctl

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"

	corev1 "k8s.io/api/core/v1"
	apiextensions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/seed-141914ff/okara/operator/api/v1alpha1"
	"github.com/seed-141914ff/okara/operator/internal/fluxobj"
)

// revision is what a run takes from its definition, without the version of the module.
type revision struct {
	Module   v1alpha1.KindModule           `json:"module"` // without version and keys
	Values   map[string]apiextensions.JSON `json:"values,omitempty"`
	Run      v1alpha1.KindRun              `json:"run,omitzero"`
	Deletion v1alpha1.KindDeletion         `json:"deletion,omitzero"`
	Outputs  v1alpha1.KindOutputs          `json:"outputs,omitzero"`
}

// revisionOf returns the revision of a definition, its bytes and its name.
func revisionOf(def *v1alpha1.ModuleKind) (revision, string, string, error) {
	s := def.Spec
	s.Module.Version = ""
	s.Module.Verify = nil
	r := revision{s.Module, s.Values, s.Run, s.Deletion, s.Outputs}
	b, err := json.Marshal(r)
	if err != nil {
		return r, "", "", err
	}
	sum := sha256.Sum256(b)
	return r, string(b), hex.EncodeToString(sum[:8]), nil
}

func (r revision) applyRevision(def *v1alpha1.ModuleKind) *v1alpha1.ModuleKind {
	was := def.DeepCopy()
	r.Module.Version = was.Spec.Module.Version
	r.Module.Verify = was.Spec.Module.Verify
	was.Spec.Module = r.Module
	was.Spec.Values = r.Values
	was.Spec.Run = r.Run
	was.Spec.Deletion = r.Deletion
	was.Spec.Outputs = r.Outputs
	return was
}

func (d *definitions) storeMeta(def *v1alpha1.ModuleKind) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: d.Namespace, Name: "okara-kind-" + def.Name}
}

// keepRevisions stores the revisions that objects have, and passes them to the kind.
func (d *definitions) keepRevisions(ctx context.Context, def *v1alpha1.ModuleKind, k *kind) error {
	now, text, name, err := revisionOf(def)
	if err != nil {
		return err
	}
	used := map[string]bool{name: true}
	unknown := false // an object that lost its status may have any revision
	if err := k.eachCached(ctx, func(o *unstructured.Unstructured) error {
		used[changeOf(o).definition] = true
		unknown = unknown || changeOf(o).definition == ""
		return nil
	}); err != nil {
		return err
	}
	all := map[string]revision{}
	m := &corev1.ConfigMap{ObjectMeta: d.storeMeta(def)}
	if _, err := fluxobj.Write(ctx, d.Client, m, def.UID, func(m *corev1.ConfigMap) error {
		if m.Data == nil {
			m.Data = map[string]string{}
		}
		maps.DeleteFunc(m.Data, func(name, _ string) bool { return !used[name] && !unknown })
		m.Data[name] = text
		for name, text := range m.Data {
			var r revision
			if err := json.Unmarshal([]byte(text), &r); err != nil {
				return fmt.Errorf("ConfigMap %s: %s: %w", m.Name, name, err)
			}
			all[name] = r
		}
		return nil
	}); err != nil {
		return err
	}
	all[name] = now
	k.setDefinition(def, name, all)
	return nil
}

// withOrphaned returns a definition whose deleted objects leave their resources, if it says so.
func withOrphaned(def *v1alpha1.ModuleKind) *v1alpha1.ModuleKind {
	if def.DeletionTimestamp == nil || def.Spec.Deletion.Orphan != v1alpha1.OrphanKeep {
		return def
	}
	kept := def.DeepCopy()
	kept.Spec.Deletion.Destroy = new(false)
	return kept
}
