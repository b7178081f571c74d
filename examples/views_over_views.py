"""Views over views: all of them step in the same commit, each by the delta of the one below."""

import ivm

with ivm.connect() as db:
    db.execute("""
        CREATE TABLE games (id INTEGER PRIMARY KEY, player VARCHAR, team VARCHAR, points INTEGER);
        CREATE MATERIALIZED VIEW players AS
            SELECT team, player, sum(points) AS points FROM games GROUP BY team, player;
        CREATE MATERIALIZED VIEW teams AS
            SELECT team, sum(points) AS points, max(points) AS best FROM players GROUP BY team;
        CREATE MATERIALIZED VIEW podium AS
            SELECT team, points FROM teams ORDER BY points DESC, team LIMIT 2;
    """)
    db.insert(
        "games",
        {
            "id": [1, 2, 3, 4],
            "player": ["ann", "bob", "cid", "dee"],
            "team": ["red", "red", "blue", "green"],
            "points": [5, 7, 9, 3],
        },
    )
    print("podium:", db.execute("SELECT * FROM podium ORDER BY points DESC").fetchall())

    db.execute("INSERT INTO games VALUES (5, 'dee', 'green', 20)")
    print("podium:", db.execute("SELECT * FROM podium ORDER BY points DESC").fetchall())

    for view in db.views():
        print(f"{view.name}: {view.strategy}")
    print("verified:", db.execute("VERIFY MATERIALIZED VIEWS").fetchall())
