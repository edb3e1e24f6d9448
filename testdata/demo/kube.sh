#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The operator with a real API server, on one machine and without nodes: a Depot that a tenant
# writes, an operator that is killed in the middle of its work, and tofu that installs the
# result. Needs what `make demo-kube` builds; leaves nothing behind.
set -eu

root=$(cd "$(dirname "$0")/../.." && pwd)
logs='api operator'
stop() { for name in operator api etcd front other origin; do end -TERM "$name"; done; }
. "$root/testdata/demo/lib.sh"
PATH=$root/.cache/kube/etcd/3.6.8:$root/.cache/kube/kube/1.36.3:$root/.cache/kube/helm/3.21.4:$PATH
releases=24 module=team-a/vpc/aws

# as runs a command with the rights of a user of the cluster.
as() {
	KUBECONFIG=$work/$1.kubeconfig
	export KUBECONFIG
	shift
	"$@"
}
# user writes the kubeconfig of a user who has a token.
user() {
	as "$1" kubectl config set-cluster demo --server "https://$api" --certificate-authority certs/apiserver.crt
	as "$1" kubectl config set-credentials demo --token "$2"
	as "$1" kubectl config set-context demo --cluster demo --user demo
	as "$1" kubectl config use-context demo
} >/dev/null
operator() {
	start operator okara-operator run --kubeconfig operator.kubeconfig --namespace okara-system --registry "$front" --front-end okara.test \
		--allow-origin "$origin" --ca-file origin/tls/ca.pem --lease 5s --metrics-address 0 --health-address 0
	printf '$ okara-operator run --registry %s & # %s\n' "$front" "$(cat operator.pid)"
}
# versions prints the versions of the module in a registry, with their digests.
versions() {
	okara list "$module" --registry "$1" | while read -r version; do
		okara show "$module" "$version" --registry "$1" --json | jq -r '.reference | split("@") | (.[0] | split(":") | last) + " " + .[1]'
	done | sort
}

step "A control plane: etcd and an API server"
address && client=http://$free
address && peer=http://$free
address && api=$free
serve origin --listen 127.0.0.1:0 --storage origin --tls-self-signed
origin=${url#https://}
start etcd etcd --data-dir etcd --unsafe-no-fsync --log-level warn --listen-client-urls "$client" --advertise-client-urls "$client" \
	--listen-peer-urls "$peer" --initial-advertise-peer-urls "$peer" --initial-cluster "default=$peer"
token=$(od -An -tx1 -N16 /dev/urandom | tr -d ' \n')
(umask 077 && echo "$token,admin,admin,system:masters" >tokens.csv)
start api kube-apiserver --etcd-servers "$client" --cert-dir certs --bind-address 127.0.0.1 --advertise-address 127.0.0.1 \
	--secure-port "${api#*:}" --service-cluster-ip-range 10.0.0.0/24 --endpoint-reconciler-type none \
	--service-account-issuer https://demo.invalid --service-account-key-file certs/apiserver.key \
	--service-account-signing-key-file certs/apiserver.key --token-auth-file tokens.csv --authorization-mode RBAC --anonymous-auth=false
user admin "$token"
until_true as admin kubectl get --raw /readyz
expect admin 0 '^Server Version: v1' kubectl version

step "The chart, and a tenant with the rights that it has for tenants"
expect admin 0 created kubectl create namespace okara-system
expect admin 0 created kubectl create namespace team-a
expect admin 0 labeled kubectl label namespace team-a okara.dev/tenant=
expect admin 0 '^STATUS: deployed' helm install okara "$root/charts/okara" -n okara-system --set registry=registry.okara.test --set frontEnd.hostname=okara.test
expect admin 0 created kubectl create serviceaccount anna -n team-a
expect admin 0 created kubectl create rolebinding anna -n team-a --clusterrole okara-registry-edit --serviceaccount team-a:anna
user anna "$(as admin kubectl create token anna -n team-a)"
user operator "$(as admin kubectl create token okara-operator -n okara-system)"

step "A server that has $releases versions of a module, and another one that has nothing yet"
mkdir vpc
n=0
while [ "$n" -lt "$releases" ]; do
	printf 'variable "cidr" {\n  type    = string\n  default = "10.%s.0.0/16"\n}\n' "$n" >vpc/main.tf
	okara publish module vpc "$module" "1.$n.0" --registry "$origin" --ca-file origin/tls/ca.pem --quiet >>published
	n=$((n + 1))
done
tail -n 1 published
serve front --listen 127.0.0.1:0 --storage front
front=${url#http://}

step "A tenant writes a Depot"
cat >depot.yaml <<EOF
apiVersion: okara.dev/v1alpha1
kind: Depot
metadata:
  name: base
  namespace: team-a
spec:
  modules:
    - address: $module
      source: $origin/$module
EOF
show cat depot.yaml
expect anna 0 created kubectl apply -f depot.yaml

step "The operator fills the registry, and is killed in the middle of it"
operator
until_true okara list "$module" --registry "$front"
printf '$ kill -KILL %s\n' "$(cat operator.pid)"
end -KILL operator
versions "$front" >before
echo "$(($(wc -l <before))) of $releases versions are in the registry"
[ "$(wc -l <before)" -ge 1 ] && [ "$(wc -l <before)" -lt "$releases" ] || fail "that was not in the middle"

step "Another one goes on"
operator
expect anna 0 'condition met' kubectl wait depot/base -n team-a --for condition=Ready --timeout 3m
versions "$front" >after
[ "$(wc -l <after)" -eq "$releases" ] || fail "$(cat after)"
[ -z "$(comm -23 before after)" ] || fail "not as before: $(comm -23 before after)"
echo "all $releases are there, and those from before are as they were"

step "What the tenant sees"
expect anna 0 team-a.vpc.aws kubectl get modules.okara.dev -n team-a
expect anna 0 team-a.vpc.aws kubectl get versions.okara.dev -n team-a

step "What is the operator's, the tenant cannot change"
expect anna 1 okara-managed kubectl patch modules.okara.dev team-a.vpc.aws -n team-a --type merge -p '{"spec":{"source":"github.com/somebody/else"}}'

step "okara depot apply puts the same into another registry"
serve other --listen 127.0.0.1:0 --storage other
other=${url#http://}
printf 'module "%s" {\n  source = "%s"\n}\n' "$module" "$origin/$module" >depot.hcl
printf '$ okara depot apply depot.hcl --registry %s --allow-internal %s\n' "$other" "$origin"
okara depot apply depot.hcl --registry "$other" --allow-internal "$origin" --ca-file origin/tls/ca.pem --quiet >applied
tail -n 1 applied
versions "$other" | diff after - || fail "the digests differ"
echo "all $releases digests are equal"

step "tofu init installs it from the front-end"
show okara cli-config --hostname okara.test "http://$front" --write cli.tfrc
export TF_CLI_CONFIG_FILE="$work/cli.tfrc"
mkdir app
printf 'module "vpc" {\n  source  = "okara.test/%s"\n  version = "~> 1.0"\n}\n' "$module" >app/main.tf
show tofu -chdir=app init -no-color
grep -q "10.$((releases - 1)).0.0" app/.terraform/modules/vpc/main.tf || fail "that is not the newest version"
printf '\n%s\n' 'the demo is complete: a Depot became versions in a registry, through a crash, the same as without a cluster'
