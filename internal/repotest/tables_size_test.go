// SPDX-License-Identifier: Apache-2.0

package repotest_test

// larger lists the exceptions to the limits of a package: what is counted, how many there
// are, and the reason. A number may only shrink, and has to when the count does.
const larger = `
cmd/okara files 74: one file per command
instances/lifecycle names 142: each event and effect has a name
internal/addr names 85: all kinds of names are defined here
internal/depot names 96: commands and services both publish with it
operator/api/v1alpha1 names 222: the kinds of the cluster
statebackend names 112: the library
cmd/okara sleeps 12: until a process, a run or a page is as far
credentials sleeps 1: a helper that hangs
instances/commands sleeps 2: until an instance is as far
instances/internal/localexec sleeps 1: a child that hangs
instances/internal/portalclient sleeps 1: until output is there
instances/internal/driver sleeps 6: lives of servers on a real disk
internal/catalog sleeps 2: a slow registry; until the list is as far
internal/e2e sleeps 9: until a process is as far
internal/web sleeps 4: until a page is as far; requests at a rate
operator/internal/chart sleeps 1: until the cluster is as far
operator/internal/instancectl sleeps 1: until the cluster is as far
operator/internal/kindrun sleeps 2: until the cluster is as far
operator/internal/portalserve sleeps 1: until the cluster is as far
operator/internal/rig sleeps 1: continuous writes would keep the operator from its own
provider/internal/plugin sleeps 2: until a process is as far
statebackend sleeps 4: processes that contend for a lock, as the tools do
`
