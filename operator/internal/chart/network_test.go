// SPDX-License-Identifier: Apache-2.0

package chart_test

import (
	"cmp"
	"net/netip"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/operator/internal/chart"
	"github.com/seed-141914ff/okara/operator/internal/fluxobj"
)

// peer is what a pod connects to: a pod of a namespace, a node, or an address outside.
type peer struct {
	address   string
	namespace string // "": no pod
	node      bool
}

// networks are the kinds of networks: which peers a block of addresses matches.
var networks = map[string]func(peer) bool{
	"by address":                            func(peer) bool { return true }, // as Calico and OVN-Kubernetes
	"Cilium":                                func(p peer) bool { return p.namespace == "" && !p.node },
	"Cilium with policyCIDRMatchMode nodes": func(p peer) bool { return p.namespace == "" },
}

// allows evaluates the rules of a policy for a connection to the port of a peer.
func allows(t *testing.T, spec networkingv1.NetworkPolicySpec, to peer, protocol corev1.Protocol, port int, byAddress func(peer) bool) bool {
	t.Helper()
	address := netip.MustParseAddr(to.address)
	contains := func(cidr string) bool { return netip.MustParsePrefix(cidr).Contains(address) }
	return slices.ContainsFunc(spec.Egress, func(rule networkingv1.NetworkPolicyEgressRule) bool {
		return (len(rule.Ports) == 0 || slices.ContainsFunc(rule.Ports, func(p networkingv1.NetworkPolicyPort) bool {
			return *cmp.Or(p.Protocol, new(corev1.ProtocolTCP)) == protocol && p.Port.IntValue() == port
		})) && (len(rule.To) == 0 || slices.ContainsFunc(rule.To, func(p networkingv1.NetworkPolicyPeer) bool {
			switch {
			case p.IPBlock != nil:
				return byAddress(to) && contains(p.IPBlock.CIDR) && !slices.ContainsFunc(p.IPBlock.Except, contains)
			case p.NamespaceSelector != nil:
				selector := must.Get(metav1.LabelSelectorAsSelector(p.NamespaceSelector))(t)
				return to.namespace != "" && selector.Matches(labels.Set{corev1.LabelMetadataName: to.namespace})
			}
			return false // pods of the same namespace
		}))
	})
}

// TestNetworks evaluates the policies of the chart and of runs for three kinds of networks.
// A block of addresses matches neither pods nor nodes with Cilium (cilium/cilium#20550,
// #35212), and DNS servers of OpenShift listen on port 5353.
//
// Shows: operator 43 | NetworkPolicies let pods and runs reach DNS, the API server, registries and
// origins on three kinds of networks, and no metadata of the cloud
func TestNetworks(t *testing.T) {
	policies := map[string]networkingv1.NetworkPolicySpec{}
	o := options(t, "few.values.yaml")
	o.Values["runs"] = map[string]any{"enabled": true, "cluster": "prod"}
	o.Values["portal"] = map[string]any{"enabled": true, "hostname": "portal.example.com"}
	for _, object := range must.Get(chart.Objects(o))(t) {
		if object.GetKind() == "NetworkPolicy" {
			policy := &networkingv1.NetworkPolicy{}
			must.Succeed(t, runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(object.Object, policy, true))
			policies[policy.Name] = policy.Spec
		}
	}
	for _, object := range (fluxobj.RunNamespace{Name: "run"}).Objects() {
		if policy, ok := object.(*networkingv1.NetworkPolicy); ok {
			policies["runs"] = policy.Spec
		}
	}
	all := []string{"okara", "okara-operator", "okara-portal", "runs"}
	controllers := all[1:]
	dns, registry := peer{address: "10.244.0.2", namespace: "kube-system"}, peer{address: "10.244.0.9", namespace: "registry"}
	node, outside, metadata := peer{address: "10.0.0.5", node: true}, peer{address: "203.0.113.7"}, peer{address: "169.254.169.254"}
	const tcp, udp = corev1.ProtocolTCP, corev1.ProtocolUDP
	for _, tt := range []struct {
		what     string
		to       peer
		protocol corev1.Protocol
		port     int
		may      []string
	}{
		{"DNS", dns, udp, 53, all},
		{"DNS over TCP", dns, tcp, 53, all},
		{"DNS on OpenShift", peer{address: "10.128.0.3", namespace: "openshift-dns"}, udp, 5353, all},
		{"the cache of DNS on a node", peer{address: "169.254.20.10"}, udp, 53, all},
		{"an API server on nodes", node, tcp, 6443, controllers},
		{"an API server of a cloud", outside, tcp, 443, all},
		{"a registry in the cluster", registry, tcp, 5000, all},
		{"a registry outside", outside, tcp, 443, all},
		{"a database in the cluster", registry, tcp, 5432, []string{"runs"}},
		{"the metadata of a cloud", metadata, tcp, 80, nil},
		{"the metadata of a cloud by IPv6", peer{address: "fd00:ec2::254"}, tcp, 80, nil},
		{"a node", node, tcp, 10250, nil},
	} {
		for network, byAddress := range networks {
			for _, from := range all {
				want := slices.Contains(tt.may, from)
				if tt.what == "a node" && from == "runs" && byAddress(node) {
					want = true // runs may connect to every address
				}
				if got := allows(t, policies[from], tt.to, tt.protocol, tt.port, byAddress); got != want {
					t.Errorf("%s: %s may connect to %s: %t, want %t", network, from, tt.what, got, want)
				}
			}
		}
	}
}
