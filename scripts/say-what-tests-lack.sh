#!/bin/sh
# Names, one line each, the programs that some tests need and this machine lacks. Those tests are skipped then.
install_with() {
    if command -v apt-get >/dev/null 2>&1; then
        echo "sudo apt-get install -y $1"
    elif command -v dnf >/dev/null 2>&1; then
        echo "sudo dnf install -y $2"
    else
        echo "brew install $3"
    fi
}
lacking() {
    echo "pkafka: no $1, so tests $2 are skipped: $(install_with "$3" "$4" "$5")" >&2
}
command -v java >/dev/null 2>&1 ||
    lacking java "with ZooKeeper or Apache Kafka" openjdk-17-jdk-headless java-17-openjdk-devel openjdk@17
command -v javac >/dev/null 2>&1 || ! command -v java >/dev/null 2>&1 ||
    lacking javac "with Apache Kafka" openjdk-17-jdk-headless java-17-openjdk-devel openjdk@17
[ -e .oracle ] || command -v mvn >/dev/null 2>&1 ||
    lacking mvn "with Apache Kafka, whose jars it fetches," maven maven maven
command -v kcat >/dev/null 2>&1 || lacking kcat "with kcat" kcat kcat kcat
[ -x /usr/sbin/krb5kdc ] || command -v krb5kdc >/dev/null 2>&1 ||
    lacking krb5kdc "with Kerberos" "krb5-kdc krb5-admin-server krb5-user" "krb5-server krb5-workstation" krb5
command -v postgres >/dev/null 2>&1 || [ -n "$(ls -d /usr/lib/postgresql/*/bin/postgres 2>/dev/null)" ] ||
    lacking postgres "with PostgreSQL" postgresql postgresql-server postgresql
command -v strace >/dev/null 2>&1 || [ "$(uname)" != Linux ] || lacking strace "of failing and slow disks" strace strace strace
exit 0
